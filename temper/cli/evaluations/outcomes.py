"""The benchmark results of an evaluation as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from temper.cli.output import Output

if TYPE_CHECKING:
    from services.contracts.evaluation.evaluations import BenchmarkOutcome, Evaluation
    from services.contracts.evaluation.metrics import MainMetric
    from services.contracts.evaluation.results import EvaluationMetrics, MacroAverage

COLUMNS = (
    *("BENCHMARK", "ITEMS", "ACCURACY", "95 % INTERVAL", "MAJORITY", "PASS@K"),
    *("FAILED", "CUT OFF", "ID"),
)
MEASURE_COLUMNS = ("PART", "MEASURE", "MEAN", "95 % INTERVAL", "ANSWERS")


def show_outcomes(out: Output, evaluation: Evaluation, name: str = "") -> None:
    """Print a row and the measures of each benchmark; ``name`` labels a single benchmark."""
    from services.metrics.main_metric import ACCURACY, main_metric

    outcomes = [(_label(evaluation, each, name), each.metrics) for each in evaluation.outcomes()]
    out.table(COLUMNS, (_row(label, metrics, evaluation) for label, metrics in outcomes))
    for (label, _), outcome in zip(outcomes, evaluation.outcomes(), strict=True):
        main = main_metric(outcome)
        if main is not None and main.name != ACCURACY:
            out.line(f"{label}: {main_text(main)}")
    if evaluation.macro_average is not None:
        out.line(macro_text(evaluation.macro_average))
    measures = [(label, *row) for label, metrics in outcomes for row in measure_rows(metrics)]
    if measures:
        out.line("")
        out.table(("BENCHMARK", *MEASURE_COLUMNS), measures)


def main_text(main: MainMetric) -> str:
    """Return a benchmark's main metric with its interval and direction."""
    if main.mean is None:
        return f"no {main.name}: nothing was graded"
    lower = ", lower is better" if main.direction == "minimize" else ""
    if main.ci95 is None:
        return f"{main.name} {main.mean:.4f}{lower}"
    low, high = main.ci95
    return f"{main.name} {main.mean:.4f} (95 % interval {low:.4f} to {high:.4f}{lower})"


def macro_text(found: MacroAverage) -> str:
    """Return the mean over benchmarks with its interval, or why there is none."""
    if found.mean is None:
        return f"no mean of the benchmarks: {found.missing}"
    low, high = found.mean.ci95
    metrics = ", ".join(dict.fromkeys(found.metrics.values()))
    return (
        f"{found.mean.mean:.4f} (95 % interval {low:.4f} to {high:.4f}, standard error "
        f"{found.mean.stderr:.4f}), the mean {metrics} of {len(found.metrics)} benchmarks"
    )


def _label(evaluation: Evaluation, outcome: BenchmarkOutcome, name: str) -> str:
    label = name if evaluation.benchmarks is None else outcome.name or ""
    return f"{label} ({outcome.split})" if outcome.split else label


def _row(name: str, metrics: EvaluationMetrics | None, evaluation: Evaluation) -> tuple[str, ...]:
    if metrics is None:
        return name, "", evaluation.status.value, "", "", "", "", "", evaluation.id
    low, high = metrics.ci95
    return (
        name,
        str(metrics.samples if metrics.items is None else metrics.items),
        f"{metrics.accuracy:.4f}",
        f"{low:.4f} to {high:.4f}",
        "" if metrics.majority is None else f"{metrics.majority.mean:.4f}",
        _pass_at_largest_k(metrics),
        str(metrics.errors),
        cut_off_text(metrics),
        evaluation.id,
    )


def cut_off_text(metrics: EvaluationMetrics) -> str:
    """Return how many answers ended at a limit, with their share; empty where nobody counted."""
    share = metrics.cut_off_share
    return "" if share is None else f"{metrics.cut_off:,} ({share:.1%})"


def _pass_at_largest_k(metrics: EvaluationMetrics) -> str:
    """Return pass@k for the largest k; empty with one sample per item."""
    if not metrics.pass_at_k:
        return ""
    k = max(metrics.pass_at_k, key=int)
    return f"{metrics.pass_at_k[k].mean:.4f} (k={k})"


def measure_rows(metrics: EvaluationMetrics | None) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measure of each part of a benchmark."""
    for part, measures in (metrics.measured if metrics else {}).items():
        for name, found in measures.items():
            low, high = found.ci95 or (None, None)
            yield (
                part,
                f"{name} (lower is better)" if found.lower_is_better else name,
                f"{found.mean:.4f}",
                "" if low is None else f"{low:.4f} to {high:.4f}",
                str(found.samples),
            )
