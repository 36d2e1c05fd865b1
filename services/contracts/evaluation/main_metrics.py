"""The main metric of a benchmark: the one number that represents it, and its direction."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

MetricName = Literal["accuracy", "mean_score", "majority", "pass_at_k"]
"""What a benchmark of one's own can name: the share of correct answers, the mean of the grader's
scores, maj@n, and pass@k with as many samples as an item has."""

Direction = Literal["maximize", "minimize"]
"""Whether higher or lower values of a metric are better."""


class MainMetric(Resource):
    """The metric that represents a benchmark in leaderboards, comparisons and means."""

    name: str
    direction: Direction = "maximize"
    mean: float | None = Field(
        default=None, description="Value of the metric; null: nothing was graded."
    )
    stderr: float | None = Field(
        default=None, description="Standard error over items; null with one item."
    )
    ci95: tuple[float, float] | None = None
    not_averaged: str | None = Field(
        default=None,
        description="Reason why the value is left out of means over benchmarks, which average "
        "shares alone.",
    )
