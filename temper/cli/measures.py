"""The measures of an evaluation that a command prints: what its grader gives beside the score,
and what its answers took with tools."""

from collections.abc import Iterator

from services.contracts.evaluations import EvaluationMetrics

COLUMNS = ("PART", "MEASURE", "MEAN", "95 % INTERVAL", "ANSWERS")


def measure_rows(metrics: EvaluationMetrics | None) -> Iterator[tuple[str, ...]]:
    """A row for each measure of each part of a benchmark, and of each answer with tools."""
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
