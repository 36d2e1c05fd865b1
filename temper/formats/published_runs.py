"""Read run files published for MindSpeed-RL, verl and slime as rollout settings."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, Field, StrictInt, ValidationError, field_validator

from services.contracts.base import Number
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import (
    CountedCalls,
    MultiTurn,
    PromptType,
    RolloutSampling,
    Tool,
)
from services.contracts.validation import first_fault
from services.parsing.tool_files import parse_tool_file
from services.parsing.yaml_text import parse_yaml
from temper.formats.run_scripts import settings_of_script
from temper.formats.slime_scripts import MARK as SLIME
from temper.formats.slime_scripts import slime_arguments
from temper.formats.verl_defaults import with_inherited

MAX_FILE_BYTES = 1024 * 1024
SCRIPT = ".sh"
Section = Mapping[str, Any]
Settings = TypeVar("Settings", bound=BaseModel)

_INTERPOLATED = ("${", "???")
"""Prefixes of values that OmegaConf fills in."""


@dataclass(frozen=True)
class PublishedRun:
    """The rollout settings of a run file; None where it does not set one.

    ``verifier_functions`` and ``verifier_weights`` are MindSpeed-RL's names of rewards.
    """

    multi_turn: MultiTurn
    sampling: RolloutSampling
    tools: tuple[Tool, ...] = ()
    prompt_type: PromptType | None = None
    samples_per_prompt: int | None = None
    max_prompt_length: int | None = None
    verifier_functions: tuple[str, ...] = ()
    verifier_weights: tuple[float, ...] = ()


class MindSpeedRollout(BaseModel):
    n_samples_per_prompt: StrictInt | None = Field(default=None, ge=1)
    max_prompt_length: StrictInt | None = Field(default=None, ge=1)
    tool_config_path: str | None = None
    verifier_function: list[str] = []
    verifier_weight: list[Number] = []


class VerlData(BaseModel):
    max_prompt_length: StrictInt | None = Field(default=None, ge=1)
    max_response_length: StrictInt | None = Field(default=None, ge=1)


class VerlRollout(BaseModel):
    n: StrictInt | None = Field(default=None, ge=1)
    prompt_length: StrictInt | None = Field(default=None, ge=1)
    response_length: StrictInt | None = Field(default=None, ge=1)


class VerlTurns(BaseModel):
    max_turns: StrictInt | None = Field(default=None, ge=1)
    max_assistant_turns: StrictInt | None = Field(default=None, ge=1)
    max_user_turns: StrictInt | None = Field(default=None, ge=1)
    format: str | None = None
    tool_config_path: str | None = None

    def tool_turns(self) -> int | None:
        """Number of turns that may call tools: the model's last turn cannot."""
        own = self.max_assistant_turns or self.max_turns
        limits = [] if own is None else [own - 1]
        return min([*limits, self.max_user_turns] if self.max_user_turns else limits, default=None)


class _Prompts(BaseModel):
    prompt_type: PromptType | None = None

    @field_validator("prompt_type", mode="before")
    @classmethod
    def _without_template(cls, value: Any) -> Any:
        return "plain" if value == "empty" else value  # MindSpeed-RL's name


def is_published(settings: Section) -> bool:
    """Whether `read_published` can read a file with this content."""
    sections = ("rl_config", "actor_rollout_ref", SLIME)
    return any(each in settings for each in sections) or is_bare_rollout(settings)


def read_published(path: Path) -> PublishedRun:
    """Read a run file and, for multi-turn runs, the tool file that it names.

    The tool file is looked up relative to the run file's folder, the folders above it, and the
    working directory: published paths start at a repository's root. Raises InvalidRequest with
    the file and the key.
    """
    try:
        settings = read_run_file(path)
        if "rl_config" in settings:
            return _of_mindspeed(settings, path)
        if SLIME in settings:
            return _of_slime(settings)
        return _of_verl(settings, path)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path.name}: {error.message}", param=error.param) from None


def _of_mindspeed(settings: Section, path: Path) -> PublishedRun:
    rl = section_of(settings, "rl_config")
    run, multi_turn = (
        read_section(MindSpeedRollout, rl, "rl_config"),
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
        settings
        if is_bare_rollout(settings)
        else section_of(settings, "actor_rollout_ref", "rollout")
    )
    block = section_of(section, "multi_turn")
    data = read_section(VerlData, section_of(settings, "data"), "data")
    rollout = read_section(VerlRollout, section, "rollout")
    turns = read_section(VerlTurns, block, "multi_turn")
    length = rollout.response_length or data.max_response_length
    own = {
        "multi_turn_enable": given(block, "enable"),
        "max_total_response_length": length,
        "max_tool_calls": turns.tool_turns(),
        "count_tool_calls": CountedCalls.TURNS,
        "tool_parser_format": "hermes" if turns.format == "qwen" else turns.format,
    }
    multi_turn = read_section(MultiTurn, {**block, **own}, "multi_turn")
    # In transformers, top_k 0 means all tokens.
    sampling = {**section, "max_tokens": length, "top_k": given(section, "top_k") or None}
    return PublishedRun(
        multi_turn=multi_turn,
        sampling=read_section(RolloutSampling, sampling, "rollout"),
        tools=_tools(turns.tool_config_path, path, multi_turn),
        prompt_type=_prompt_type(settings),
        samples_per_prompt=rollout.n,
        max_prompt_length=rollout.prompt_length or data.max_prompt_length,
    )


SLIME_SAMPLING = {
    "max_tokens": "--rollout-max-response-len",
    "temperature": "--rollout-temperature",
    "top_p": "--rollout-top-p",
    "top_k": "--rollout-top-k",
    "stop": "--rollout-stop",
}
SLIME_SAMPLES, SLIME_PROMPT = "--n-samples-per-prompt", "--rollout-max-prompt-len"


def _of_slime(settings: Section) -> PublishedRun:
    """A run without tools: those of slime are functions of its own."""
    run = RunSettings(settings)
    sampling = {name: given(settings, key) for name, key in SLIME_SAMPLING.items()}
    if isinstance(sampling["stop"], str):
        sampling["stop"] = [sampling["stop"]]
    return PublishedRun(
        multi_turn=MultiTurn(),
        sampling=read_section(RolloutSampling, sampling, "rollout"),
        samples_per_prompt=run.integer(SLIME_SAMPLES) or 1,
        max_prompt_length=run.integer(SLIME_PROMPT),
    )


def read_prompt_type(path: Path) -> PromptType | None:
    """The prompt type in a dataset file of MindSpeed-RL; raises InvalidRequest."""
    settings = _parsed(path)
    if not isinstance(settings, Mapping):
        raise InvalidRequest(f"{path.name}: not a mapping of names to values")
    try:
        return _prompt_type(settings)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path.name}: {error.message}", param=error.param) from None


def is_bare_rollout(settings: Section) -> bool:
    """Whether this is verl's rollout section without its surroundings."""
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
    raise InvalidRequest(f"tool file {named} does not exist", param="tool_config_path")


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InvalidRequest(f"{path.name} is longer than {MAX_FILE_BYTES:,} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from None


def read_run_file(path: Path) -> Section:
    """Return the settings in a run file; raises InvalidRequest for any other file."""
    settings = _of_script(_text(path)) if path.suffix == SCRIPT else _parsed(path)
    whole = with_inherited(settings) if isinstance(settings, dict) else None
    if whole is None or not is_published(whole):
        raise InvalidRequest("has neither an rl_config (MindSpeed-RL) nor a rollout section (verl)")
    return whole


def _of_script(text: str) -> Section:
    arguments = slime_arguments(text)
    return settings_of_script(text) if arguments is None else arguments


def _parsed(path: Path) -> Any:
    try:
        return parse_yaml(_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"not YAML: {' '.join(str(error).split())[:300]}") from None


def section_of(settings: Section, *names: str) -> Section:
    """Return a nested section, empty if missing. Raises InvalidRequest."""
    for position, name in enumerate(names, start=1):
        value = given(settings, name)
        if value is not None and not isinstance(value, Mapping):
            key = ".".join(names[:position])
            raise InvalidRequest(f"{key} is not a section", param=key)
        settings = value or {}
    return settings


def given(section: Section, name: str) -> Any:
    """Return a value; None if missing or interpolated, as in ``${data.n}``."""
    value = section.get(name)
    is_interpolated = isinstance(value, str) and value.startswith(_INTERPOLATED)
    return None if is_interpolated else value


def read_section(kind: type[Settings], section: Section, place: str) -> Settings:
    """Validate the fields of ``kind`` in a section. Raises InvalidRequest with the full key."""
    values = {name: given(section, name) for name in kind.model_fields}
    try:
        return kind.model_validate({name: v for name, v in values.items() if v is not None})
    except ValidationError as error:
        fault = first_fault(error)
        key = ".".join(filter(None, [place, fault.field]))
        raise InvalidRequest(f"{key}: {fault.message}", param=key) from None


class RunSettings:
    """The settings of a run file by dotted key; tracks which were read."""

    def __init__(self, settings: Section) -> None:
        self._settings = settings
        self._read: set[str] = set()

    def mark(self, section: str, *names: str) -> None:
        """Mark keys of a section as read."""
        self._read |= {".".join(filter(None, [section, name])) for name in names}

    def value(self, key: str) -> Any:
        """Return a value; None if it is missing, null or interpolated."""
        value = self.peek(key)
        if value is not None:
            self._read.add(key)
        return value

    def peek(self, key: str) -> Any:
        """The same for a value that has no counterpart: it still counts as unread."""
        *sections, name = key.split(".")
        section: Any = self._settings
        for each in sections:
            section = section.get(each) if isinstance(section, Mapping) else None
        return given(section, name) if isinstance(section, Mapping) else None

    def number(self, key: str) -> float | None:
        """Return a number; raises InvalidRequest for another value."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
        raise InvalidRequest(f"{key} is {str(value)[:80]!r}, not a number", param=key)

    def integer(self, key: str) -> int | None:
        """Return an integer; raises InvalidRequest for another value."""
        value = self.number(key)
        if value is None or value == int(value):
            return None if value is None else int(value)
        raise InvalidRequest(f"{key} is {value}, not a whole number", param=key)

    def flag(self, key: str) -> bool:
        """Return a boolean, False if missing; raises InvalidRequest for another value."""
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise InvalidRequest(f"{key} is {str(value)[:80]!r}, not true or false", param=key)

    def unread(self) -> tuple[str, ...]:
        """Return the keys whose values were never read, in order."""
        return tuple(key for key in _leaves(self._settings) if key not in self._read)


def _leaves(settings: Section, prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}"
