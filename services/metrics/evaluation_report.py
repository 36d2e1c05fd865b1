"""The report on evaluations: its tables, plots and conversations."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from services.contracts.evaluation.comparisons import EvaluationComparison
from services.contracts.evaluation.evaluations import BenchmarkOutcome, Evaluation
from services.contracts.evaluation.metrics import Direction
from services.contracts.evaluation.results import DISPUTED, EvaluationMetrics, SampleResult
from services.metrics.conversations import (
    CONVERSATION_COLUMNS,
    Conversation,
    conversation_folds,
    conversation_rows,
)
from services.metrics.leaderboard import with_tools
from services.metrics.main_metric import main_metric
from services.metrics.reports.document import Block, Cell, Document, Plot, Section, Table
from services.metrics.reports.plots import Interval, IntervalPlot, LengthPlot

SUMMARY_COLUMNS = (
    *("evaluation", "model", "benchmark", "file", "split", "graded by"),
    *("main metric", "better", "value", "value from", "value to"),
    *("samples", "accuracy", "95 % from", "95 % to"),
    *("maj@n", "best pass@k", "wrong", "no grade", "unanswered", "unparsable"),
    *("cut off", "cut off share", "left out"),
    "in training files",
    *("prompt tokens", "completion tokens", "tokens/s"),
)
MEAN_COLUMNS = (
    *("evaluation", "model", "benchmarks", "metrics"),
    *("mean", "standard error", "95 % from", "95 % to", "why there is none"),
)
MEASURE_COLUMNS = (
    *("evaluation", "benchmark", "part", "measure", "better"),
    *("mean", "95 % from", "95 % to", "answers"),
)
COMPARISON_COLUMNS = (
    *("baseline", "candidate", "benchmark", "compared", "better"),
    *("items", "left out", "baseline mean", "candidate mean"),
    *("difference", "95 % from", "95 % to", "test", "p", "p (Holm)", "better one"),
    *("gained", "lost"),
)
CHANGE_COLUMNS = (
    *("candidate", "benchmark", "row", "change"),
    *("gold", "baseline answer", "candidate answer"),
)
ROW_COLUMNS = (
    *("evaluation", "benchmark", "row", "sample", "outcome", "score"),
    *("gold", "compared", "answer", "error"),
    *("seconds", "completion tokens", "tags", "prompt"),
)
FORMATS = (".html", ".xlsx", ".md", ".json")
"""The file suffixes that a report can have."""
CONVERSATION_FIELDS = {"id", "messages", "tools", "turns", "finish_reason", "error"}
"""What the JSON report contains of a trajectory: all but its tokens and the fields of its row."""


@dataclass(frozen=True)
class EvaluationReport:
    """Evaluations that succeeded, the first of which is the baseline of ``comparison``.

    ``rows`` are the first rows of each of its benchmarks, in the order of the file; ``has_more``
    says that there are others. ``conversations`` belong to the first of ``rows`` with tools.
    """

    evaluations: Sequence[Evaluation]
    rows: Mapping[str, Sequence[SampleResult]]
    comparison: EvaluationComparison | None = None
    has_more: bool = False
    conversations: Sequence[Conversation] = ()

    @property
    def title(self) -> str:
        """The title of the report."""
        models = dict.fromkeys(map(model_name, self.evaluations))
        return f"Evaluation of {', '.join(models)}"

    @property
    def summary(self) -> str:
        """An introduction to the tables."""
        text = (
            "Accuracy counts samples without a grade as wrong; its interval is the Wilson score "
            "interval over items."
        )
        if self.comparison is not None:
            text += f" Differences are to {self.comparison.baseline}, on the same items."
        if self.has_more:
            read = Counter(
                (row.benchmark, name) for name, rows in self.rows.items() for row in rows
            )
            text += f" Rows are the first {max(read.values()):,} of each benchmark."
        asked = sum(row.tools is not None for rows in self.rows.values() for row in rows)
        if len(self.conversations) < asked:
            text += f" {len(self.conversations):,} of {asked:,} conversations are shown."
        return text

    def document(self) -> Document:
        """The report, for a writer."""
        opening: list[Block] = [self.summary, *self._plots()]
        return Document(self.title, opening, self._sections(), self.as_json)

    def _sections(self) -> Iterator[Section]:
        for name, table in self._tables():
            yield Section(name, [table])

    def _tables(self) -> Iterator[tuple[str, Table]]:
        yield "Summary", Table(SUMMARY_COLUMNS, starmap(_summary, self._outcomes()))
        if any(each.macro_average for each in self.evaluations):
            yield "Means", Table(MEAN_COLUMNS, self._means())
        if any(each.metrics and each.metrics.measured for _, each in self._outcomes()):
            yield "Measures", Table(MEASURE_COLUMNS, self._measures())
        if self.comparison is not None:
            yield "Comparison", Table(COMPARISON_COLUMNS, _compared(self.comparison))
            yield "Changes", Table(CHANGE_COLUMNS, self._changes(self.comparison))
        disputed = list(self._rows(DISPUTED))
        if disputed:
            yield "Disputed", Table(ROW_COLUMNS, disputed)
        yield "Rows", Table(ROW_COLUMNS, self._rows())
        if self.conversations:
            rows = conversation_rows(self.conversations)
            folds = conversation_folds(self.conversations)
            yield "Conversations", Table(CONVERSATION_COLUMNS, rows, folds)

    def _outcomes(self) -> Iterator[tuple[Evaluation, BenchmarkOutcome]]:
        return ((each, outcome) for each in self.evaluations for outcome in each.outcomes())

    def _plots(self) -> Iterator[Plot]:
        """The accuracies with their intervals, and the lengths of the answers by outcome."""
        yield IntervalPlot("Accuracy, 95 % interval", list(self._intervals()))
        for each in self.evaluations:
            rows = self.rows[each.id]
            yield LengthPlot(f"Completion tokens of {each.id}", list(map(_length, rows)))

    def _intervals(self) -> Iterator[Interval]:
        for each, outcome in self._outcomes():
            if outcome.metrics is not None:
                benchmark = f"{outcome.name}, " if each.benchmarks is not None else ""
                label = f"{model_name(each)} ({benchmark}{each.id})"
                yield Interval(label, outcome.metrics.accuracy, outcome.metrics.ci95)
        for each in self.evaluations:
            if each.macro_average is not None and (mean := each.macro_average.mean) is not None:
                label = f"{model_name(each)} (mean of benchmarks, {each.id})"
                yield Interval(label, mean.mean, mean.ci95)

    def as_json(self) -> dict[str, Any]:
        """The document of the JSON report."""
        comparison = self.comparison and self.comparison.model_dump(mode="json")
        return {
            "evaluations": [each.model_dump(mode="json") for each in self.evaluations],
            "comparison": comparison,
            "rows": {
                name: [row.model_dump(mode="json") for row in rows]
                for name, rows in self.rows.items()
            },
            "has_more_rows": self.has_more,
            "conversations": [
                {
                    "evaluation": each.evaluation,
                    "row": each.row.id,
                    **each.trajectory.model_dump(mode="json", include=CONVERSATION_FIELDS),
                }
                for each in self.conversations
            ],
        }

    def _means(self) -> Iterator[Sequence[Cell]]:
        for each in self.evaluations:
            if (found := each.macro_average) is not None:
                place = (each.id, model_name(each), len(each.outcomes()))
                metrics = ", ".join(dict.fromkeys(found.metrics.values())) or None
                mean = found.mean
                numbers = (mean.mean, mean.stderr, *mean.ci95) if mean else (None,) * 4
                yield (*place, metrics, *numbers, found.missing)

    def _measures(self) -> Iterator[Sequence[Cell]]:
        for each, outcome in self._outcomes():
            for part, measures in (outcome.metrics.measured if outcome.metrics else {}).items():
                for name, found in measures.items():
                    better = "lower" if found.lower_is_better else "higher"
                    interval = found.ci95 or (None, None)
                    place = (each.id, outcome.name, part, name)
                    yield *place, better, found.mean, *interval, found.samples

    def _changes(self, comparison: EvaluationComparison) -> Iterator[Sequence[Cell]]:
        """The rows whose value differs, among the rows of the report."""
        for each in comparison.comparisons:
            before = _by_row(self.rows[comparison.baseline], each.benchmark)
            after = _by_row(self.rows[each.candidate], each.benchmark)
            for change, items in (("lost", each.lost_items), ("gained", each.gained_items)):
                for row in items:
                    if row in before and row in after:
                        gold = " | ".join(before[row][0].gold)
                        answers = _answers(before[row]), _answers(after[row])
                        yield (each.candidate, each.benchmark, row, change, gold, *answers)

    def _rows(self, tag: str | None = None) -> Iterator[Sequence[Cell]]:
        for name, rows in self.rows.items():
            for row in rows:
                if tag is not None and tag not in row.tags:
                    continue
                yield (
                    *(name, row.benchmark, row.index, row.sample, row.outcome, row.score),
                    *(" | ".join(row.gold), row.extracted, row.answer, row.error),
                    *(row.latency_seconds, row.completion_tokens),
                    *(", ".join(row.tags), row.prompt),
                )


def model_name(evaluation: Evaluation) -> str:
    """The name of the evaluated model, which may be a remote one, and its tools."""
    model = evaluation.model
    return with_tools(model if isinstance(model, str) else model.model, evaluation)


def in_training_files(metrics: EvaluationMetrics) -> str | None:
    """How many items each training file of the model contains; None where that is unknown."""
    if metrics.training_overlap is None:
        return None
    held = [f"{each.items:,} in {each.file}" for each in metrics.training_overlap if each.items]
    return ", ".join(held) or "none"


def _summary(each: Evaluation, found: BenchmarkOutcome) -> Sequence[Cell]:
    metrics = found.metrics
    place = (each.id, model_name(each), found.name, found.file, found.split)
    if metrics is None:
        return (*place, *[None] * (len(SUMMARY_COLUMNS) - len(place)))
    graded_by = found.benchmark if isinstance(found.benchmark, str) else found.grader.type
    majority = None if metrics.majority is None else metrics.majority.mean
    best = max((each.mean for each in (metrics.pass_at_k or {}).values()), default=None)
    wrong = metrics.samples - metrics.correct - metrics.errors
    return (
        *(*place, graded_by),
        *_main(found),
        *(metrics.samples, metrics.accuracy, *metrics.ci95, majority, best),
        *(wrong, metrics.errors, metrics.unanswered, metrics.unparsable),
        *(metrics.cut_off, metrics.cut_off_share, metrics.left_out),
        in_training_files(metrics),
        *(metrics.prompt_tokens, metrics.completion_tokens, metrics.tokens_per_second),
    )


def _main(found: BenchmarkOutcome) -> Sequence[Cell]:
    main = main_metric(found)
    if main is None:
        return (None,) * 5
    return main.name, _better(main.direction), main.mean, *(main.ci95 or (None, None))


def _better(direction: Direction) -> str:
    return "lower" if direction == "minimize" else "higher"


def _compared(comparison: EvaluationComparison) -> Iterator[Sequence[Cell]]:
    for each in comparison.comparisons:
        yield (
            *(comparison.baseline, each.candidate, each.benchmark),
            *(each.value, _better(each.direction), each.items, each.left_out),
            *(each.baseline_mean, each.candidate_mean, each.difference, *each.ci95),
            *(each.test, each.p_value, each.p_adjusted, each.better, each.gained, each.lost),
        )


def _by_row(
    results: Sequence[SampleResult], benchmark: str | None
) -> dict[int, list[SampleResult]]:
    """The samples of each row; those of an evaluation of one file are of any ``benchmark``."""
    rows: dict[int, list[SampleResult]] = {}
    for result in results:
        if result.benchmark in {None, benchmark}:
            rows.setdefault(result.index, []).append(result)
    return rows


def _answers(samples: Sequence[SampleResult]) -> str:
    return "\n".join(each.answer or each.error or "" for each in samples)


def _length(row: SampleResult) -> tuple[str, int]:
    return row.outcome, row.completion_tokens or 0
