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

    name: str = Field(description="Name of the metric, such as accuracy or mean_score.")
    direction: Direction = Field(
        default="maximize", description="Whether higher or lower values of the metric are better."
    )
    mean: float | None = Field(
        default=None, description="Value of the metric; null: nothing was graded."
    )
    stderr: float | None = Field(
        default=None,
        description="Standard error of the value over items; null: too few have a value.",
    )
    ci95: tuple[float, float] | None = Field(
        default=None,
        description="95 % confidence interval of the value; null: too few items have a value.",
    )
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

    precision: float = Field(
        description="Correct share of the calls or arguments in answers, from 0 to 1."
    )
    recall: float = Field(
        description="Share of the golds' calls or arguments that answers have, from 0 to 1."
    )
    f1: float = Field(description="Harmonic mean of precision and recall, from 0 to 1.")


class CallCounts(CallScore):
    """The score of one tool or parameter, with its counts."""

    name: str = Field(description="Name of the tool, or of `tool-parameter`.")
    label_count: int = Field(description="Number of occurrences in golds.")
    pred_count: int = Field(description="Number of occurrences in answers.")
    hit_count: int = Field(
        description="Number of occurrences that a sample's answer and its gold share."
    )


class CallTable(Resource):
    """Scores of the most frequent names, those of golds first, and averages over all names.

    ``micro_avg`` pools the counts, ``macro_avg`` is the unweighted mean.
    """

    entries: list[CallCounts] = Field(
        description="Scores by name, of the most frequent names, those of golds first."
    )
    left_out: int = Field(
        default=0,
        description="Number of names without an entry: those beyond the first 200, and those above "
        "200 characters.",
    )
    micro_avg: CallScore = Field(description="Scores of the pooled counts of all names.")
    macro_avg: CallScore = Field(description="Unweighted mean of the scores of all names.")


class EqualCalls(Resource):
    """Samples whose calls are those of the gold (``hits``), of all of a kind."""

    hits: int = Field(description="Number of samples whose calls equal those of the gold.")
    total: int = Field(description="Number of samples that were compared.")


class ToolCallScores(Resource):
    """Precision, recall and F1 of the calls in answers.

    A sample without an answer states no call. Of several golds that which the answer equals counts,
    else the first. ``single`` and ``multi`` are samples whose gold has one call, and several.
    """

    tools: CallTable = Field(description="Scores by tool.")
    parameters: CallTable = Field(
        description="Scores by `tool-parameter`; a parameter is right where its value is."
    )
    single: EqualCalls = Field(description="Samples whose gold has one call.")
    multi: EqualCalls = Field(description="Samples whose gold has several calls.")
