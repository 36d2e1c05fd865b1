"""Leaderboards: the newest results of models on benchmarks, as rows and columns."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, starmap

from services.contracts.evaluation.benchmarks import Benchmark, SplitName
from services.contracts.evaluation.evaluations import BenchmarkOutcome, Evaluation, declared_metric
from services.contracts.evaluation.metrics import Direction, MainMetric
from services.contracts.evaluation.results import EvaluationMetrics, ItemEstimate
from services.contracts.jobs import JobStatus
from services.metrics.macro_average import share_items
from services.metrics.main_metric import (
    ACCURACY,
    MEAN_SCORE,
    estimate_of,
    main_metric,
    mean_of_independent,
)
from services.metrics.missing_scores import worst_score


@dataclass(frozen=True, slots=True)
class BenchmarkKey:
    """What evaluations must share for their main metrics to be comparable.

    ``grading`` is the grader with all its settings, the passing score, the declared metric and the
    part of an answer that is graded. ``benchmark`` is the one by name; another prompt than its own
    makes another benchmark. ``task`` is what an unnamed one asks and takes for right. ``rows``
    counts those that were asked, also if the infrastructure lost their samples.
    ``metric`` is the main one of the newest result, ``name`` what its evaluation calls it.
    """

    file: str
    benchmark: str | None
    split: SplitName | None
    grader: str
    grading: str
    task: str
    rows: int
    samples_per_item: int
    direction: Direction
    metric: str = field(compare=False)
    name: str | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class LeaderboardCell:
    """A model's newest result on a benchmark."""

    evaluation: str
    metrics: EvaluationMetrics
    main: MainMetric


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """A model's results; ``mean`` is the unweighted mean of the main metrics.

    There is none if a benchmark is missing, or one of several is not averaged. ``interval`` is the
    mean with its error, if there are several benchmarks without common items.
    """

    model: str
    cells: Mapping[BenchmarkKey, LeaderboardCell]
    mean: float | None
    interval: ItemEstimate | None = None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Models by mean; those with more results stand above those with fewer.

    Where benchmarks have no mean, models stand by their mean rank on them, the best one first.
    """

    benchmarks: Sequence[BenchmarkKey]
    rows: Sequence[LeaderboardRow]

    def is_best(self, row: LeaderboardRow, benchmark: BenchmarkKey) -> bool:
        """Whether no other model is better on a benchmark that several models have."""
        column = [each.cells[benchmark] for each in self.rows if benchmark in each.cells]
        cell = row.cells[benchmark]
        return len(column) > 1 and cell.main.mean is not None and not _better(column, cell)


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
            main = main_metric(outcome)
            if outcome.metrics is None or main is None:
                continue
            benchmark = _benchmark(outcome, outcome.metrics, main)
            benchmarks.pop(benchmark, None)
            benchmarks[benchmark] = None
            model = cells.setdefault(_name(evaluation), {})
            model.setdefault(benchmark, LeaderboardCell(evaluation.id, outcome.metrics, main))
    columns = list(reversed(benchmarks))
    rows = [
        LeaderboardRow(model, found, _mean(found, len(columns)), _interval(found, columns))
        for model, found in cells.items()
    ]
    by_mean = all(_has_mean(row.cells) for row in rows)
    ordered = sorted(
        rows,
        key=lambda row: (
            -len(row.cells),
            -_average(row.cells) if by_mean else _rank(row.cells, rows),
            row.model,
        ),
    )
    return Leaderboard(columns, ordered)


def _benchmark(
    outcome: BenchmarkOutcome, metrics: EvaluationMetrics, main: MainMetric
) -> BenchmarkKey:
    declared, _ = declared_metric(outcome.benchmark)
    own = outcome.benchmark if isinstance(outcome.benchmark, Benchmark) else None
    graded = f"{outcome.prediction!r} {outcome.keep_reasoning}"
    return BenchmarkKey(
        file=outcome.file,
        benchmark=outcome.benchmark if isinstance(outcome.benchmark, str) else None,
        split=outcome.split,
        grader=outcome.grader.type,
        grading=f"{outcome.grader.model_dump_json()} {outcome.pass_threshold} {declared} {graded}",
        task="" if own is None else json.dumps(own.task, sort_keys=True),
        # Whatever the infrastructure lost of them: every row is asked as often as any other.
        rows=(metrics.samples + metrics.left_out) // metrics.samples_per_item,
        samples_per_item=metrics.samples_per_item,
        metric=main.name,
        name=outcome.name,
        direction=main.direction,
    )


def _name(evaluation: Evaluation) -> str:
    model = evaluation.model
    name = model if isinstance(model, str) else f"{model.model} ({model.origin})"
    return with_tools(name, evaluation)


def with_tools(model: str, evaluation: Evaluation) -> str:
    """The model's name and its tools: with other tools it is another entry."""
    tools = ", ".join(tool.class_name.rpartition(".")[2] for tool in evaluation.tools)
    return f"{model} with {tools}" if tools else model


_Cells = Mapping[BenchmarkKey, LeaderboardCell]


def _mean(cells: _Cells, benchmarks: int) -> float | None:
    if len(cells) < benchmarks:
        return None
    if benchmarks == 1:
        (only,) = cells.values()
        return only.main.mean
    return _average(cells) if _has_mean(cells) else None


def _interval(cells: _Cells, columns: Sequence[BenchmarkKey]) -> ItemEstimate | None:
    parts = [(each.file, each.split) for each in columns]
    if (
        len(cells) != len(columns)
        or len(columns) < 2
        or not _has_mean(cells)
        or any(starmap(share_items, combinations(parts, 2)))
    ):
        return None
    estimates = [estimate_of(cell.main) for cell in cells.values()]
    known = [each for each in estimates if each is not None]
    return mean_of_independent(known) if len(known) == len(estimates) else None


def _has_mean(cells: _Cells) -> bool:
    mains = [cell.main for cell in cells.values()]
    return all(each.mean is not None and each.not_averaged is None for each in mains)


def _average(cells: _Cells) -> float:
    return sum(cell.main.mean or 0.0 for cell in cells.values()) / len(cells)


def _rank(cells: _Cells, rows: Sequence[LeaderboardRow]) -> float:
    """The mean number of models that are better on a benchmark."""
    columns = {each: [row.cells[each] for row in rows if each in row.cells] for each in cells}
    return sum(_better(columns[each], cell) for each, cell in cells.items()) / len(cells)


def _better(column: Iterable[LeaderboardCell], cell: LeaderboardCell) -> int:
    """How many results of a benchmark are better than one of them; one of nothing is the worst.

    Those whose main metric is another one are not compared.
    """
    comparable = [each for each in column if each.main.name == cell.main.name]
    known = (each.metrics.worst_score for each in comparable)
    worst = worst_score(
        [each for each in known if each is not None],
        higher_is_better=cell.main.direction == "maximize",
    )
    return sum(_order(each, worst) > _order(cell, worst) for each in comparable)


def _order(cell: LeaderboardCell, worst: float) -> tuple[bool, float]:
    """What is higher for a better result, if a sample without a score counts as ``worst``."""
    main, metrics = cell.main, cell.metrics
    if main.mean is None:
        return False, -math.inf
    sign = 1 if main.direction == "maximize" else -1
    if main.name == MEAN_SCORE and metrics.worst_score is not None:
        missing = metrics.errors / metrics.samples
        return True, sign * (main.mean + missing * (worst - metrics.worst_score))
    # Other numbers than shares may leave such samples out: a model must not gain by giving none.
    is_share = main.name == ACCURACY or main.not_averaged is None
    return is_share or metrics.errors == 0, sign * main.mean
