"""PANORAMA as a family of rewards."""

from collections.abc import Sequence
from contextlib import nullcontext

from services.contracts.base import JsonObject
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import PanoramaGrader
from services.core.operator_environment import OperatorEnvironment
from services.metrics.main_metric import metric_of, with_zeros
from services.metrics.measures import MeasureRules
from services.rewards.families import RewardContext, RewardFamily
from services.rewards.panorama.grader import CLASSES, Panorama
from services.rewards.panorama.rows import read_question

_PUBLISHED = {"par4pc": "item_score", "pi4pc": "item_score", "noc4pc": "macro_f1"}
"""The published score of each task."""


class PanoramaFamily(RewardFamily[PanoramaGrader]):
    """Answers about patents."""

    settings = PanoramaGrader
    extracts = True
    json_golds = True
    measures = MeasureRules(
        ratios={
            "item_score": (("points", "possible_points"),),
            "pooled_f1": (("twice_right", "counted"),),
            "macro_f1": tuple((f"twice_right_{each}", f"counted_{each}") for each in CLASSES),
        }
    )

    def open(self, settings: PanoramaGrader, context: RewardContext) -> nullcontext[Panorama]:  # noqa: ARG002 - the interface of families
        """Return a component that needs nothing but the row."""
        return nullcontext(Panorama(settings))

    def check_row(self, fields: JsonObject, golds: Sequence[str], settings: PanoramaGrader) -> None:
        """Raise `InvalidRequest` for a row without a right answer."""
        read_question(fields, golds, settings.task)

    def subtask_of(self, fields: JsonObject, settings: PanoramaGrader) -> str:  # noqa: ARG002 - the interface of families
        """Return the task, which all rows have."""
        return settings.task

    def main_metric(self, settings: PanoramaGrader, metrics: EvaluationMetrics) -> MainMetric:
        """Return the published score of the task, in which a sample without an answer is 0."""
        name = _PUBLISHED[settings.task]
        found = (metrics.measures or {}).get(settings.task, {}).get(name)
        graded = metrics.samples - metrics.errors
        return with_zeros(metric_of(name, found), graded, metrics.unanswered)

    def may_regrade(
        self,
        settings: PanoramaGrader,
        environment: OperatorEnvironment,
    ) -> None:
        """Equal answers have equal grades."""
