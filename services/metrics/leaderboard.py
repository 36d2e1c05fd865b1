"""Leaderboards: the newest results of models on benchmarks, as rows and columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, starmap

from services.contracts.benchmarks import SplitName
from services.contracts.evaluation_results import EvaluationMetrics, ItemEstimate
from services.contracts.evaluations import BenchmarkOutcome, Evaluation
from services.contracts.jobs import JobStatus
from services.metrics.macro_average import accuracy_of, mean_of_independent, share_items


@dataclass(frozen=True, slots=True)
class BenchmarkKey:
    """What evaluations must share for their accuracies to be comparable.

    ``grading`` is the grader with all its settings and the passing score, as JSON. ``benchmark`` is
    the one by name; another prompt than its own makes another benchmark.
    """

    file: str
    benchmark: str | None
    split: SplitName | None
    grader: str
    grading: str
    items: int
    samples_per_item: int


@dataclass(frozen=True, slots=True)
class LeaderboardCell:
    """A model's newest result on a benchmark."""

    evaluation: str
    metrics: EvaluationMetrics


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """A model's results; ``mean`` is the unweighted mean accuracy, if no benchmark is missing.

    ``interval`` is that mean with its error, if there are several benchmarks without common items.
    """

    model: str
    cells: Mapping[BenchmarkKey, LeaderboardCell]
    mean: float | None
    interval: ItemEstimate | None = None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Models by mean accuracy; those with more results stand above those with fewer."""

    benchmarks: Sequence[BenchmarkKey]
    rows: Sequence[LeaderboardRow]


def leaderboard(evaluations: Iterable[Evaluation]) -> Leaderboard:
    """Arrange the succeeded ones of ``evaluations``, which come newest first.

    Benchmarks stand in the order in which they were first evaluated.
    """
    cells: dict[str, dict[BenchmarkKey, LeaderboardCell]] = {}
    benchmarks: dict[BenchmarkKey, None] = {}
    for evaluation in evaluations:
        if evaluation.status is not JobStatus.SUCCEEDED:
            continue
        # The columns are reversed below, and those of one evaluation stand as it names them.
        for outcome in reversed(evaluation.outcomes()):
            if outcome.metrics is None:
                continue
            benchmark = _benchmark(outcome, outcome.metrics)
            benchmarks.pop(benchmark, None)
            benchmarks[benchmark] = None
            model = cells.setdefault(_name(evaluation), {})
            model.setdefault(benchmark, LeaderboardCell(evaluation.id, outcome.metrics))
    columns = list(reversed(benchmarks))
    rows = [
        LeaderboardRow(model, found, _mean(found, len(columns)), _interval(found, columns))
        for model, found in cells.items()
    ]
    rows.sort(key=lambda row: (-len(row.cells), -_average(row.cells), row.model))
    return Leaderboard(columns, rows)


def _benchmark(outcome: BenchmarkOutcome, metrics: EvaluationMetrics) -> BenchmarkKey:
    return BenchmarkKey(
        file=outcome.file,
        benchmark=outcome.benchmark if isinstance(outcome.benchmark, str) else None,
        split=outcome.split,
        grader=outcome.grader.type,
        grading=f"{outcome.grader.model_dump_json()} {outcome.pass_threshold}",
        items=metrics.samples if metrics.items is None else metrics.items,
        samples_per_item=metrics.samples_per_item,
    )


def _name(evaluation: Evaluation) -> str:
    model = evaluation.model
    name = model if isinstance(model, str) else f"{model.model} ({model.origin})"
    return with_tools(name, evaluation)


def with_tools(model: str, evaluation: Evaluation) -> str:
    """The model's name, and what it could call: with other tools it is another subject."""
    tools = ", ".join(tool.class_name.rpartition(".")[2] for tool in evaluation.tools)
    return f"{model} with {tools}" if tools else model


def _mean(cells: Mapping[BenchmarkKey, LeaderboardCell], benchmarks: int) -> float | None:
    return _average(cells) if len(cells) == benchmarks else None


def _interval(
    cells: Mapping[BenchmarkKey, LeaderboardCell], columns: Sequence[BenchmarkKey]
) -> ItemEstimate | None:
    parts = [(each.file, each.split) for each in columns]
    if (
        len(cells) != len(columns)
        or len(columns) < 2
        or any(starmap(share_items, combinations(parts, 2)))
    ):
        return None
    return mean_of_independent([accuracy_of(cell.metrics) for cell in cells.values()])


def _average(cells: Mapping[BenchmarkKey, LeaderboardCell]) -> float:
    return sum(cell.metrics.accuracy for cell in cells.values()) / len(cells)
