"""Read the environment files that RD-Agent publishes for its fine-tuning loop.

Every key of the published template has its effect on campaigns or is answered with a warning.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import BaseModel

from services.contracts.base import JsonObject
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.campaigns.limits import CampaignBudget, CampaignTimeLimits
from services.contracts.campaigns.llms import CampaignLlm, ScriptLlms
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from temper.submission.submission import SubmissionError

DEFAULT_FILE = Path(".env")
MAX_FILE_BYTES = 256 * 1024
LONGEST_EVALUATION_SECONDS = 7 * 86_400
"""What the published default of 0 means for the time limit of a benchmark."""
SAMPLED_TEMPERATURE = 0.6
"""Several runs of a benchmark sample answers; greedy ones would all be alike."""
THINKING = "Each answer begins with its reasoning between <think> and </think>."

_SHARED_STEPS = ("coding", "running")
"""Steps that several loops of a campaign may be at; they take the others one by one."""
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_PREFIXES = ("litellm_proxy/", "openai/")
"""With these LiteLLM names a proxy or an OpenAI-compatible endpoint; the rest is its model."""


@dataclass
class CampaignEnvironment:
    """What an environment file says. ``body`` has fields of a campaign, nested as on the wire;
    ``shown`` every key of the file with its value, secrets masked."""

    body: JsonObject = field(default_factory=dict)
    model: str | None = None
    benchmark: str | None = None
    benchmark_description: str | None = None
    scenario: str | None = None
    cards: str | None = None
    datasets: list[str] | None = None
    strong_models: list[str] = field(default_factory=list)
    weak_models: list[str] = field(default_factory=list)
    script_calls_at_once: int | None = None
    judge: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    hub_token: str | None = None
    thinks: bool = False
    shown: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def working_environment(path: Path | None) -> CampaignEnvironment:
    """The settings of ``path``; None: those of ``.env`` in the working folder, if it is one of a
    campaign, which names a chat model or a key of the loop."""
    if path is not None:
        return read_environment(path)
    try:
        names = dotenv_values(DEFAULT_FILE, interpolate=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return CampaignEnvironment()
    is_of_a_campaign = any(name == "CHAT_MODEL" or name.startswith("FT_") for name in names)
    return read_environment(DEFAULT_FILE) if is_of_a_campaign else CampaignEnvironment()


def read_environment(path: Path) -> CampaignEnvironment:
    """The settings of a file of ``KEY=value`` lines; keys without a value are not set.

    Raises `SubmissionError` that names the key with a bad value.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SubmissionError(f"{path}: has more than {MAX_FILE_BYTES >> 10} KiB")
        values = dotenv_values(path, interpolate=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SubmissionError(f"{path}: {error}") from error
    environment = CampaignEnvironment()
    for key, value in values.items():
        if value is None or not value.strip():
            continue
        environment.shown[key] = mask(key, value)
        if key in _WARNINGS:
            environment.warnings.append(f"{key} has no effect: {_WARNINGS[key]}")
            continue
        effect = _EFFECTS.get(key)
        if effect is None:
            environment.warnings.append(f"{key} is unknown and has no effect")
            continue
        try:
            warning = effect(environment, value.strip())
        except ValueError as error:
            raise SubmissionError(f"{path}: {key}: {error}") from error
        if warning is not None:
            environment.warnings.append(f"{key} {warning}")
    _place_judge(environment)
    _warn_of_calls_that_nothing_makes(environment)
    return environment


def mask(key: str, value: str) -> str:
    """The value to show: of secrets only that they are set."""
    return "********" if any(part in key.upper() for part in _SECRET) else value


KNOWN_KEYS: tuple[str, ...]
"""All keys with an effect or a warning."""

_Effect = Callable[[CampaignEnvironment, str], str | None]
"""Sets what a value says; returns a warning, to follow the key."""
_Read = Callable[[str], Any]


def _whole(text: str) -> int:
    number = float(text)
    if not number.is_integer():
        raise ValueError(f"{text!r} is not a whole number")
    return int(number)


def _boolean(text: str) -> bool:
    given = text.lower()
    if given not in {"true", "false", "1", "0", "yes", "no", "on", "off"}:
        raise ValueError(f"{text!r} is not True or False")
    return given in {"true", "1", "yes", "on"}


def _chat_model(text: str) -> str:
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text


def _chat_models(text: str) -> list[str]:
    return [_chat_model(name) for name in _names(text)]


def _names(text: str) -> list[str]:
    """A JSON list of names, or names separated by commas."""
    names: Any = json.loads(text) if text.startswith("[") else text.split(",")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{text!r} is not a list of names")
    return [name.strip() for name in names if name.strip()]


def _one_number(text: str) -> int:
    """A whole number, or a JSON list of one."""
    if not text.startswith("["):
        return _whole(text)
    numbers = json.loads(text)
    if len(numbers) != 1 or not isinstance(numbers[0], int):
        raise ValueError("campaigns compare models by one pass@k: give one number")
    return int(numbers[0])


def _evaluation_seconds(text: str) -> int:
    return _whole(text) or LONGEST_EVALUATION_SECONDS


def _field(
    *path: str,
    read: _Read = str,
    of: type[BaseModel] = CreateCampaign,
) -> _Effect:
    """Sets a field of the campaign, within the bounds that the model ``of`` has for it."""

    def effect(environment: CampaignEnvironment, text: str) -> str | None:
        place = environment.body
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]], warning = _clamped(read(text), of, path[-1])
        return warning

    return effect


def _clamped(value: Any, of: type[BaseModel], name: str) -> tuple[Any, str | None]:
    """The value within the bounds of a field, and a warning where it was outside."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value, None
    low, high = -math.inf, math.inf
    for limit in of.model_fields[name].metadata:
        low = max(low, getattr(limit, "ge", low))
        high = min(high, getattr(limit, "le", high))
    if low <= value <= high:
        return value, None
    bound = low if value < low else high
    side = "below" if value < low else "above"
    return bound, f"is {value:g}, {side} {bound:g}, which is used"


def _setting(name: str, read: _Read = str) -> _Effect:
    """Sets what tasks leave out."""

    def effect(environment: CampaignEnvironment, text: str) -> str | None:
        setattr(environment, name, read(text))
        return None

    return effect


def _calls_at_once(environment: CampaignEnvironment, text: str) -> str | None:
    calls, warning = _clamped(_whole(text), ScriptLlms, "calls_at_once")
    environment.script_calls_at_once = calls
    return warning


def _runs(environment: CampaignEnvironment, text: str) -> str | None:
    runs, warning = _clamped(_whole(text), CreateCampaign, "samples_per_item")
    environment.body["samples_per_item"] = runs
    if runs > 1:
        environment.body.setdefault("sampling", {})["temperature"] = SAMPLED_TEMPERATURE
    return warning


def _branches(environment: CampaignEnvironment, text: str) -> str | None:
    """Loops at once; several keys ask for them, and the most counts."""
    asked, warning = _clamped(_whole(text), CreateCampaign, "branches")
    environment.body["branches"] = max(environment.body.get("branches", 1), asked)
    return warning


def _steps_at_once(environment: CampaignEnvironment, text: str) -> str | None:
    """A number for every step, or a JSON object of numbers by step."""
    given: Any = json.loads(text)
    by_step = given if isinstance(given, dict) else dict.fromkeys(_SHARED_STEPS, given)
    if not all(type(number) is int for number in by_step.values()):
        raise ValueError(f"{text!r} is neither a whole number nor an object of them by step")
    limits = {
        step: _clamped(by_step[step], CreateCampaign, "branches")[0]
        for step in _SHARED_STEPS
        if step in by_step
    }
    environment.body["steps_at_once"] = limits
    return _branches(environment, str(max(by_step.values(), default=1)))


def _judge(environment: CampaignEnvironment, text: str) -> str | None:
    environment.judge["model"] = _chat_model(text)
    return None


def _judge_base(environment: CampaignEnvironment, text: str) -> str | None:
    environment.judge["base_url"] = text
    return None


def _place_judge(environment: CampaignEnvironment) -> None:
    """The judge is at the endpoint of the LLM, unless it has one of its own."""
    if "model" not in environment.judge:
        return
    base_url = environment.judge.get("base_url") or environment.body.get("llm", {}).get("base_url")
    if base_url is None:
        environment.warnings.append(
            "FT_JUDGE_MODEL has no effect without FT_JUDGE_API_BASE or OPENAI_API_BASE"
        )
        return
    environment.judge["base_url"] = base_url


def judge_of(environment: CampaignEnvironment, benchmark: str | None) -> dict[str, str] | None:
    """The judge of answers to a benchmark that has one; a warning where it has none."""
    if "base_url" not in environment.judge or "model" not in environment.judge:
        return None
    if benchmark is not None and BENCHMARKS[benchmark].answer_range is not None:
        return environment.judge
    warning = f"FT_JUDGE_MODEL has no effect: the grader of {benchmark or 'the rows'} decides"
    if warning not in environment.warnings:
        environment.warnings.append(warning)
    return None


def _unless(expected: Callable[[str], bool], why: str) -> _Effect:
    """Warns of any other value."""

    def effect(_: CampaignEnvironment, text: str) -> str | None:
        return None if expected(text) else f"has no effect: {why}"

    return effect


def _warn_of_calls_that_nothing_makes(environment: CampaignEnvironment) -> None:
    has_models = environment.strong_models or environment.weak_models
    if environment.script_calls_at_once is not None and not has_models:
        environment.warnings.append(
            "FT_API_MAX_WORKERS has no effect without FT_STRONG_MODELS or FT_WEAK_MODELS: data "
            "scripts may ask no LLM"
        )


_EFFECTS: Mapping[str, _Effect] = {
    "BACKEND": _unless(
        lambda text: "litellm" in text.lower(),
        "campaigns ask any OpenAI-compatible endpoint",
    ),
    "CHAT_MODEL": _field("llm", "model", read=_chat_model),
    "CHAT_TEMPERATURE": _field("llm", "temperature", read=float, of=CampaignLlm),
    "CHAT_STREAM": _unless(lambda text: not _boolean(text), "answers are read as a whole"),
    "CHAT_FREQUENCY_PENALTY": _field("llm", "frequency_penalty", read=float, of=CampaignLlm),
    "CHAT_PRESENCE_PENALTY": _field("llm", "presence_penalty", read=float, of=CampaignLlm),
    "OPENAI_API_BASE": _field("llm", "base_url"),
    "MAX_RETRY": _field("llm", "attempts", read=_whole, of=CampaignLlm),
    "RETRY_WAIT_SECONDS": _field("llm", "retry_seconds", read=float, of=CampaignLlm),
    "MULTI_PROC_N": _branches,
    "STEP_SEMAPHORE": _steps_at_once,
    "DUMP_CHAT_CACHE": _field("answer_cache", "write", read=_boolean),
    "USE_CHAT_CACHE": _field("answer_cache", "read", read=_boolean),
    "LOG_LLM_CHAT_CONTENT": _field("log_conversations", read=_boolean),
    "CUDA_VISIBLE_DEVICES": _setting("cards"),
    "FT_FILE_PATH": _setting("folder", lambda text: Path(text).expanduser()),
    "FT_API_MAX_WORKERS": _calls_at_once,
    "FT_STRONG_MODELS": _setting("strong_models", _chat_models),
    "FT_WEAK_MODELS": _setting("weak_models", _chat_models),
    "FT_TARGET_BENCHMARK": _setting("benchmark"),
    "FT_BENCHMARK_DESCRIPTION": _setting("benchmark_description"),
    "FT_USER_TARGET_SCENARIO": _setting("scenario"),
    "FT_DATASET": _setting("datasets", _names),
    "FT_BASE_MODEL": _setting("model"),
    "FT_FULL_TIMEOUT": _field("time_limits", "training", read=_whole, of=CampaignTimeLimits),
    "FT_DATA_PROCESSING_TIMEOUT": _field(
        "time_limits", "script", read=float, of=CampaignTimeLimits
    ),
    "FT_DEBUG_DATA_PROCESSING_TIMEOUT": _field(
        "time_limits", "debug_script", read=float, of=CampaignTimeLimits
    ),
    "FT_MICRO_BATCH_TIMEOUT": _field("time_limits", "trial", read=float, of=CampaignTimeLimits),
    "FT_BENCHMARK_TIMEOUT": _field(
        "time_limits", "evaluation", read=_evaluation_seconds, of=CampaignTimeLimits
    ),
    "FT_BENCHMARK_LIMIT": _field("benchmark_rows", read=_whole),
    "FT_BENCHMARK_NUM_RUNS": _runs,
    "FT_BENCHMARK_PASS_K": _field("pass_k", read=_one_number),
    "FT_JUDGE_MODEL": _judge,
    "FT_JUDGE_API_BASE": _judge_base,
    "FT_UPPER_DATA_SIZE_LIMIT": _field("training_rows", read=_whole),
    "FT_DOCKER_ENABLE_CACHE": _field("reuse_data", read=_boolean),
    "FT_CODER_MAX_LOOP": _field("budget", "coding_attempts", read=_whole, of=CampaignBudget),
    "FT_FORCE_THINK_TOKEN": _setting("thinks", _boolean),
    "FT_DATA_SAMPLE_COUNT": _field("sample_rows", read=_whole),
    "REASONING_THINK_RM": _field("llm", "strip_reasoning", read=_boolean),
    "HF_TOKEN": _setting("hub_token"),
}

_NO_EMBEDDINGS = "campaigns ask for no embeddings"
_OWN_KEYS = (
    "the workers take the key of an endpoint from their own TEMPER_ENDPOINT_KEYS, and it is sent "
    "nowhere"
)

_WARNINGS: Mapping[str, str] = {
    "OPENAI_API_KEY": _OWN_KEYS,
    "EMBEDDING_MODEL": _NO_EMBEDDINGS,
    "EMBEDDING_USE_AZURE": _NO_EMBEDDINGS,
    "DUMP_EMBEDDING_CACHE": _NO_EMBEDDINGS,
    "USE_EMBEDDING_CACHE": _NO_EMBEDDINGS,
    "FT_EMBEDDING_MODELS": _NO_EMBEDDINGS,
    "LOG_FORMAT_CONSOLE": "the log is JSON and Markdown",
    "FT_Coder_CoSTEER_env_type": "scripts run in the sandbox, trainings in their runtime",
    "FT_UPDATE_LLAMA_FACTORY": "versions are locked",
    "FT_JUDGE_API_KEY": _OWN_KEYS,
    "FT_JUDGE_RETRY": "a judge is asked again as often as the operator has it",
}

KNOWN_KEYS = (*_EFFECTS, *_WARNINGS)
