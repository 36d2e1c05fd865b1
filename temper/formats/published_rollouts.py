"""Reads the run files that MindSpeed-RL and verl publish, as settings of rollouts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, Field, StrictInt

from services.contracts.base import Number
from services.contracts.errors import InvalidRequest
from services.contracts.multi_turn import CountedCalls, MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.tool_files import parse_tool_file
from services.contracts.yaml_text import parse_yaml
from temper.formats.published_sections import Section, given, read_section, section_of

MAX_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class PublishedRun:
    """What a run file says of rollouts; null is what it leaves open.

    ``verifier_functions`` and ``verifier_weights`` name rewards as MindSpeed-RL does.
    """

    multi_turn: MultiTurn
    sampling: RolloutSampling
    tools: tuple[Tool, ...] = ()
    prompt_type: PromptType | None = None
    samples_per_prompt: int | None = None
    max_prompt_length: int | None = None
    verifier_functions: tuple[str, ...] = ()
    verifier_weights: tuple[float, ...] = ()


class _MindSpeed(BaseModel):
    n_samples_per_prompt: StrictInt | None = Field(default=None, ge=1)
    max_prompt_length: StrictInt | None = Field(default=None, ge=1)
    tool_config_path: str | None = None
    verifier_function: list[str] = []
    verifier_weight: list[Number] = []


class _VerlData(BaseModel):
    max_prompt_length: StrictInt | None = Field(default=None, ge=1)
    max_response_length: StrictInt | None = Field(default=None, ge=1)


class _VerlRollout(BaseModel):
    n: StrictInt | None = Field(default=None, ge=1)
    prompt_length: StrictInt | None = Field(default=None, ge=1)
    response_length: StrictInt | None = Field(default=None, ge=1)


class _VerlTurns(BaseModel):
    max_turns: StrictInt | None = Field(default=None, ge=1)
    max_assistant_turns: StrictInt | None = Field(default=None, ge=1)
    max_user_turns: StrictInt | None = Field(default=None, ge=1)
    format: str | None = None
    tool_config_path: str | None = None

    def tool_turns(self) -> int | None:
        """How many turns may call tools: the last of the model's own calls nothing."""
        own = self.max_assistant_turns or self.max_turns
        limits = [] if own is None else [own - 1]
        return min([*limits, self.max_user_turns] if self.max_user_turns else limits, default=None)


class _Prompts(BaseModel):
    prompt_type: PromptType | None = None


def is_published(settings: Section) -> bool:
    """Whether this is the content of a file that `read_published` reads."""
    return "rl_config" in settings or "actor_rollout_ref" in settings or _is_verl(settings)


def read_published(path: Path) -> PublishedRun:
    """Read a run file, and the tool file that it names where it plays several turns.

    A tool file is looked for from the folder of the run file, from those above it and from the
    working directory: published paths begin at the root of a repository. Raises InvalidRequest
    that names the file and the key.
    """
    try:
        settings = _mapping(_text(path))
        if "rl_config" in settings:
            return _of_mindspeed(settings, path)
        return _of_verl(settings, path)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path.name}: {error.message}", param=error.param) from None


def _of_mindspeed(settings: Section, path: Path) -> PublishedRun:
    rl = section_of(settings, "rl_config")
    run, multi_turn = (
        read_section(_MindSpeed, rl, "rl_config"),
        read_section(MultiTurn, rl, "rl_config"),
    )
    return PublishedRun(
        multi_turn=multi_turn,
        sampling=read_section(
            RolloutSampling,
            section_of(settings, "generate_config", "sampling_config"),
            "generate_config.sampling_config",
        ),
        tools=_tools(run.tool_config_path, path, multi_turn),
        prompt_type=_prompt_type(settings),
        samples_per_prompt=run.n_samples_per_prompt,
        max_prompt_length=run.max_prompt_length,
        verifier_functions=tuple(run.verifier_function),
        verifier_weights=tuple(run.verifier_weight),
    )


def _of_verl(settings: Section, path: Path) -> PublishedRun:
    section = (
        settings if _is_verl(settings) else section_of(settings, "actor_rollout_ref", "rollout")
    )
    block = section_of(section, "multi_turn")
    data = read_section(_VerlData, section_of(settings, "data"), "data")
    rollout = read_section(_VerlRollout, section, "rollout")
    turns = read_section(_VerlTurns, block, "multi_turn")
    length = rollout.response_length or data.max_response_length
    own = {
        "multi_turn_enable": given(block, "enable"),
        "max_total_response_length": length,
        "max_tool_calls": turns.tool_turns(),
        "count_tool_calls": CountedCalls.TURNS,
        "tool_parser_format": "hermes" if turns.format == "qwen" else turns.format,
    }
    multi_turn = read_section(MultiTurn, {**block, **own}, "multi_turn")
    # Where transformers samples, top_k 0 means all tokens.
    sampling = {**section, "max_tokens": length, "top_k": given(section, "top_k") or None}
    return PublishedRun(
        multi_turn=multi_turn,
        sampling=read_section(RolloutSampling, sampling, "rollout"),
        tools=_tools(turns.tool_config_path, path, multi_turn),
        prompt_type=_prompt_type(settings),
        samples_per_prompt=rollout.n,
        max_prompt_length=rollout.prompt_length or data.max_prompt_length,
    )


def _is_verl(settings: Section) -> bool:
    """Whether this is verl's rollout section itself."""
    block = settings.get("multi_turn")
    return isinstance(block, Mapping) and "enable" in block


def _prompt_type(settings: Section) -> PromptType | None:
    place = settings if "prompt_type" in settings else section_of(settings, "rl_config")
    return read_section(_Prompts, place, "").prompt_type


def _tools(named: str | None, path: Path, multi_turn: MultiTurn) -> tuple[Tool, ...]:
    if named is None or not multi_turn.multi_turn_enable:
        return ()
    for folder in (*path.absolute().parents, Path.cwd()):
        if (found := folder / named).is_file():
            return tuple(parse_tool_file(_text(found), found.name))
    raise InvalidRequest(f"there is no tool file {named}", param="tool_config_path")


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InvalidRequest(f"{path.name} is longer than {MAX_FILE_BYTES:,} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from None


def _mapping(text: str) -> Section:
    try:
        settings = parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"is no YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(settings, dict) or not is_published(settings):
        raise InvalidRequest("has no rl_config of MindSpeed-RL and no rollout section of verl")
    return settings
