"""The human-readable log of a campaign: a folder of JSON and Markdown, written as it runs.

The layout is RD-Agent's: ``log/2025-01-01_12-00-00-123456/Loop_1/coding``, named after the local
time at which the campaign was created. The database is the source of truth; nothing reads the log.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import yaml

from services.campaigns.data.training_settings import TRIAL_ARGUMENTS, trial_arguments
from services.campaigns.run.effects import Effect, Place
from services.campaigns.run.records import Code
from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import StepName
from services.contracts.llamafactory.names import Stage
from services.contracts.training.offline import SupervisedHyperparameters
from services.jobs.campaign_records import CACHED

OUTPUT, PAGE, SUMMARY, REQUEST = "output.json", "step.md", "summary.md", "campaign.json"


class LogFolder:
    """The log of one campaign in the folder of its job."""

    def __init__(self, job_folder: Path, created_at: float, *, conversations: bool = True) -> None:
        self._conversations = conversations
        root = job_folder / "log"
        # An existing folder is reused, even if the time zone has changed.
        begun = sorted(root.glob("*")) if root.exists() else []
        stamp = datetime.fromtimestamp(created_at).strftime("%Y-%m-%d_%H-%M-%S-%f")  # noqa: DTZ006 - names of folders are in local time, as published
        self.path = begun[0] if begun else root / stamp

    def begin(self, request: JsonObject) -> None:
        """Write the request, once."""
        if not (self.path / REQUEST).exists():
            _write(self.path / REQUEST, _pretty(request))

    def holds(self, place: Place) -> bool:
        """Whether a step has been written."""
        return (self._folder(place) / OUTPUT).exists()

    def write_progress(self, place: Place, effects: Mapping[str, Effect]) -> None:
        """Write the progress of a running step."""
        _write(self._folder(place) / PAGE, _page(place, None, effects, self._conversations))

    def write_step(self, place: Place, output: JsonObject, effects: Mapping[str, Effect]) -> None:
        """Write a finished step: its output, its conversation, script and settings."""
        folder = self._folder(place)
        for name, content in _files(place.step, output).items():
            _write(folder / name, content)
        _write(folder / PAGE, _page(place, output, effects, self._conversations))
        _write(folder / OUTPUT, _pretty(output))  # last: it says that the step is complete

    def write_summary(self, lessons: Sequence[str]) -> None:
        """Replace the summary: one line for each loop."""
        lines = [f"- {' '.join(lesson.split())}" for lesson in lessons]
        _write(self.path / SUMMARY, "\n".join(["# Loops", "", *lines, ""]))

    def _folder(self, place: Place) -> Path:
        return self.path / f"Loop_{place.loop}" / place.step.value


DATASET_INFO: JsonObject = {
    "processed_data": {
        "file_name": "data.json",
        "formatting": "alpaca",
        "columns": {"prompt": "instruction", "query": "input", "response": "output"},
    }
}
"""How LLaMA-Factory reads the rows of a script."""


def _files(step: StepName, output: JsonObject) -> dict[str, str]:
    """The published files of a step: code, settings and data statistics."""
    if step is StepName.CODING and output.get("script"):
        return {
            "process_data.py": str(output["script"]),
            "train.yaml": str(output["settings"]),
            "test_params.yaml": yaml.safe_dump(TRIAL_ARGUMENTS),
            "debug_train.yaml": _trial_settings(Code.model_validate(output)),
            "dataset_info.json": _pretty(DATASET_INFO),
        }
    if step is StepName.RUNNING and output.get("tokens"):
        statistics = {
            "total_samples": output["rows"],
            "removed_samples": output["contaminated"],
            "token_stats": output["tokens"],
        }
        return {"data_stats.json": _pretty(statistics)}
    return {}


def _trial_settings(code: Code) -> str:
    """The settings of the training on debug rows, under LLaMA-Factory's names."""
    settings = SupervisedHyperparameters.model_validate(code.hyperparameters)
    method = {"stage": Stage.SFT.value, "finetuning_type": settings.training_type.value}
    return yaml.safe_dump({**method, **trial_arguments(settings.llamafactory)})


def _page(
    place: Place, output: JsonObject | None, effects: Mapping[str, Effect], with_conversations: bool
) -> str:
    parts = [f"# Loop {place.loop}: {place.step.value}"]
    jobs = [f"- {key}: {effect.job_id}" for key, effect in effects.items() if effect.job_id]
    if jobs:
        parts.append("\n".join(["## Jobs", "", *jobs]))
    for key, effect in effects.items():
        if "answer" not in effect.response:
            continue
        parts.append(f"## {key} ({_tokens(effect)})")
        if not with_conversations:
            continue
        asked = [str(message["content"]) for message in effect.response.get("messages", [])]
        parts += [_fenced(text) for text in asked]
        parts += ["The LLM answers:", _fenced(str(effect.response["answer"]))]
    if output is None:
        return "\n\n".join([*parts, "This step is under way."]) + "\n"
    shown = {key: value for key, value in output.items() if key not in {"script", "settings"}}
    parts += ["## Output", _fenced(_pretty(shown).rstrip(), "json")]
    return "\n\n".join(parts) + "\n"


def _tokens(effect: Effect) -> str:
    if CACHED in effect.response:
        return f"from the cache, {effect.response[CACHED]} tokens saved"
    return f"{effect.prompt_tokens} prompt and {effect.completion_tokens} completion tokens"


def _fenced(text: str, language: str = "") -> str:
    """A code block that the text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _pretty(value: JsonObject) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, content: str) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(content, encoding="utf-8")
    partial.replace(path)
