"""What evaluations measure: the main metric of a benchmark, and how well tool calls match."""

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
    share: bool = Field(
        default=True, description="Whether the value is a share, from 0 to 1; else a number."
    )
    not_averaged: str | None = Field(
        default=None,
        description="Reason why the value is left out of means over benchmarks, which average "
        "shares alone.",
    )


class CallScore(Resource):
    """Each from 0 to 1; 0/0 is 0."""

    precision: float
    recall: float
    f1: float


class CallCounts(CallScore):
    """The score of one tool or parameter, with its counts."""

    name: str
    label_count: int = Field(description="Occurrences in golds.")
    pred_count: int = Field(description="Occurrences in answers.")
    hit_count: int = Field(description="Occurrences in both, of a sample.")


class CallTable(Resource):
    """Scores of the most frequent names, those of golds first, and averages over all names.

    ``micro_avg`` pools the counts, ``macro_avg`` is the unweighted mean.
    """

    entries: list[CallCounts]
    left_out: int = Field(
        default=0,
        description="Names beyond the first 200, and those above 200 characters.",
    )
    micro_avg: CallScore
    macro_avg: CallScore


class EqualCalls(Resource):
    """Samples whose calls are those of the gold (``hits``), of all of a kind."""

    hits: int
    total: int


class ToolCallScores(Resource):
    """Precision, recall and F1 of the calls in answers.

    A sample without an answer states no call. Of several golds that which the answer equals counts,
    else the first. ``single`` and ``multi`` are samples whose gold has one call, and several.
    """

    tools: CallTable
    parameters: CallTable = Field(
        description="Counts by `tool-parameter`; a parameter is right where its value is."
    )
    single: EqualCalls
    multi: EqualCalls
