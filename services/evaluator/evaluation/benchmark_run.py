"""A benchmark of a running evaluation: its samples and their results."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import (
    GoldGrader,
    MathGrader,
    NumericGrader,
    ToolCallsGrader,
)
from services.contracts.rewards.openai_graders import ScoreModelGrader
from services.contracts.rewards.rewards import EvaluationGrader
from services.datasets.record import UnreadableFile
from services.datasets.splits import rows_of_part
from services.evaluator.evaluation.results import Answered
from services.evaluator.evaluation.samples import EvaluationSample, gold_check, read_samples
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.evaluation.tool_call_totals import ToolCallTotals
from services.evaluator.evaluation.totals import RunningTotals
from services.metrics.measures import MeasureRules
from services.rewards.families import family_of, grader_metric, subtask_of
from services.rewards.graders.meaning import normal_box

EXTRACTING = GoldGrader | MathGrader
"""Graders of no family that compare an extracted answer; without one it is unparsable."""
COMPARING = MathGrader | NumericGrader
"""Graders whose normal forms do not show all that is equal, with components that compare answers;
those of other graders show it, or nothing else does."""
SECOND_OPINION = MeasureRules(lower_is_better=frozenset({"judge_failed"}))
"""Of the measures of graders of no family: whether a judge agrees."""


class BenchmarkRun:
    """The samples of a benchmark, which of them are answered, and their totals.

    ``place`` is what its fields in the request begin with, ``rows_before`` the rows of the
    benchmarks before it. Raises `InvalidRequest` for a file without samples.
    """

    def __init__(self, spec: BenchmarkSpec, place: str, rows_before: int = 0) -> None:
        self.spec = spec
        self.place = place
        rows = _rows(spec, place)
        self.size = len(rows) * spec.samples_per_item
        self.rows_before = rows_before
        self.rows_after = rows_before + rows[-1] + 1
        self.answered = Answered(rows[-1] + 1, spec.samples_per_item)
        grader = spec.grader
        self._field = f"{place}grader"
        found = family_of(grader, self._field)
        family = None if found is None else found[0]
        self.totals = RunningTotals(
            spec.samples_per_item,
            extracts=isinstance(grader, EXTRACTING) if family is None else family.extracts,
            tool_calls=ToolCallTotals(grader) if isinstance(grader, ToolCallsGrader) else None,
            rules=SECOND_OPINION if family is None else family.measures,
            has_subtasks=family is not None,
            score_range=_score_range(grader),
            lower_is_better=spec.lower_is_better,
            compares=self.compares,
            normal_form=(
                partial(normal_box, ordered=grader.ordered)
                if isinstance(grader, MathGrader)
                else None
            ),
        )

    @property
    def compares(self) -> bool:
        """Whether the majority of several samples takes comparisons of answers with each other."""
        return self.spec.samples_per_item > 1 and isinstance(self.spec.grader, COMPARING)

    @property
    def left(self) -> int:
        """Samples that have not been generated yet."""
        return self.size - self.totals.samples

    def grader_metric(self, metrics: EvaluationMetrics) -> MainMetric | None:
        """The main metric that the grader's family names; None without a family or a name."""
        return grader_metric(self.spec.grader, self._field, metrics)

    def subtask_of(self, fields: JsonObject) -> str | None:
        """The sub-task of a row that the grader's family names; None without one."""
        return subtask_of(self.spec.grader, self._field, fields)

    def samples(self) -> Iterator[EvaluationSample]:
        """Every row that is evaluated."""
        return read(self.spec)

    def unanswered(self) -> Iterator[EvaluationSample]:
        """The samples to generate. Those of an item are adjacent, so that its prompt is in the
        engine's prefix cache."""
        for item in self.samples():
            for sample in range(self.spec.samples_per_item):
                if not self.answered.has(item.index, sample):
                    yield replace(item, sample=sample, rows_before=self.rows_before)


def _score_range(grader: EvaluationGrader) -> tuple[float, float]:
    """Between what the scores of a grader are, unless they show otherwise."""
    if not isinstance(grader, ScoreModelGrader):
        return 0.0, 1.0
    lowest, highest = grader.range
    return lowest, highest


def runs_of(spec: EvaluationSpec) -> list[BenchmarkRun]:
    """All benchmarks of an evaluation, in its order; raises `InvalidRequest`."""
    runs: list[BenchmarkRun] = []
    for number, each in enumerate(spec.benchmarks):
        place = "" if each.name is None else f"benchmarks.{number}."
        runs.append(BenchmarkRun(each, place, runs[-1].rows_after if runs else 0))
    return runs


def read(spec: BenchmarkSpec) -> Iterator[EvaluationSample]:
    """The rows of a benchmark that are evaluated, in order of its file."""
    samples = read_samples(spec.samples, gold_check(spec.grader), spec.benchmark)
    if spec.split is not None:
        part = frozenset(rows_of_part(spec.samples, spec.benchmark, spec.split))
        samples = (sample for sample in samples if sample.index in part)
    return islice(samples, spec.max_samples)


def _rows(spec: BenchmarkSpec, place: str) -> Sequence[int]:
    try:
        rows = array("Q", (sample.index for sample in read(spec)))
    except UnreadableFile as error:
        raise InvalidRequest(error.message, param=f"{place}file") from error
    except InvalidRequest as error:  # the grader cannot work
        error.param = f"{place}{error.param}"
        raise
    if not rows:
        raise InvalidRequest("the file has no samples", param=f"{place}file")
    return rows
