"""A reward, a tool and a tracker in a package of their own.

rewards: [{name: short, reward: {type: extension, name: brevity, settings: {most: 200}}}]
tools: [{class_name: word-count}]
TEMPER_TRACKERS=lines
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics
from services.core.operator_environment import OperatorEnvironment
from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker
from services.metrics.measures import MeasureRules
from services.rewards.families import RewardContext, RewardFamily
from services.rewards.interface import Sample, Score
from services.rollouts.tools.base import ToolResult
from services.rollouts.tools.configuration import ToolConfig
from services.rollouts.tools.families import ToolFamily

LENGTHS, CHARACTERS = "lengths", "characters"
"""What the report calls the measures of answers, and the one that there is."""


class BrevitySettings(BaseModel):
    """Settings of the reward."""

    model_config = ConfigDict(extra="forbid")

    most: int = Field(gt=0, description="Characters at which the score is 0.")


class Brevity:
    """1 for an empty answer, down to 0 for ``most`` characters or more; counts the characters."""

    def __init__(self, settings: BrevitySettings) -> None:
        self._most = settings.most

    async def score(self, sample: Sample) -> Score:
        """Score one answer."""
        length = len(sample.answer)
        score = max(0.0, 1.0 - length / self._most)
        return Score(score, group=LENGTHS, measures={CHARACTERS: length})


class BrevityFamily(RewardFamily[BrevitySettings]):
    """Rewards of short answers."""

    settings = BrevitySettings
    measures = MeasureRules(lower_is_better=frozenset({CHARACTERS}))

    def open(self, settings: BrevitySettings, context: RewardContext) -> nullcontext[Brevity]:
        """Return a component, which holds nothing that must be closed."""
        return nullcontext(Brevity(settings))

    def check_row(
        self, fields: JsonObject, golds: Sequence[str], settings: BrevitySettings
    ) -> None:
        """Refuse rows whose shortest right answer has no score."""
        if golds and min(map(len, golds)) >= settings.most:
            raise InvalidRequest(f"has {settings.most} or more characters", param="gold")

    def main_metric(self, settings: BrevitySettings, metrics: EvaluationMetrics) -> MainMetric:
        """Return the mean number of characters."""
        found = (metrics.measures or {}).get(LENGTHS, {}).get(CHARACTERS)
        return MainMetric(
            name=CHARACTERS,
            direction="minimize",
            mean=found and found.mean,
            stderr=found and found.stderr,
            ci95=found and found.ci95,
            share=False,
        )

    def may_regrade(self, settings: BrevitySettings, environment: OperatorEnvironment) -> None:
        """Equal answers have equal scores: evaluations may reuse them."""


class WordCount:
    """Counts words."""

    idempotent = True

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Count the words of ``text``."""
        return ToolResult(str(len(arguments["text"].split())), attempts=1)

    async def probe(self) -> None:
        """Respond always."""


class WordCountFamily(ToolFamily[ToolConfig]):
    """Tools that count words."""

    config = ToolConfig
    schema = {
        "type": "function",
        "function": {
            "name": "count_words",
            "description": "Counts the words of a text.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        },
    }

    def open(self, config: ToolConfig, environment: OperatorEnvironment) -> nullcontext[WordCount]:
        """Return a tool, which holds nothing that must be closed."""
        return nullcontext(WordCount())


class LinesTracker(Tracker):
    """Writes metrics to ``lines.jsonl`` in the folder of the job."""

    def start(self, run: TrackedRun, config: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        """Create the file, or continue it."""
        self._path = Path(run.folder) / "lines.jsonl"

    def log(self, step: int, metrics: Mapping[str, float], time: float) -> None:
        """Append the metrics of a step."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "time": time, **metrics}) + "\n")

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """Ignore samples."""

    def finish(self, state: End) -> None:
        """Do nothing: each step is written at once."""
