"""Comparisons: evaluations of the same items, tested against one of them."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request, Resource
from services.contracts.evaluation.metrics import Direction, ToolCallScores

ComparedValue = Literal["correct", "score"]


class CompareEvaluations(Request):
    """The body of POST /v1/evaluations/{id}/compare."""

    candidates: list[Annotated[str, StringConstraints(max_length=100)]] = Field(
        min_length=1,
        max_length=20,
        description="Evaluations of the same files with the same graders.",
    )
    value: ComparedValue | None = Field(
        default=None,
        description="Value to compare: `correct` (ungraded samples count as wrong) or `score` "
        "(they count as the worst score of both, or as 0 where that is worse). Null: the score for "
        "benchmarks whose metric is mean_score, correctness for others.",
    )


class ToolCallComparison(Resource):
    """How well both state the calls of their golds, each over all its samples."""

    baseline: ToolCallScores = Field(description="Scores of the baseline's tool calls.")
    candidate: ToolCallScores = Field(description="Scores of the candidate's tool calls.")


class PairedComparison(Resource):
    """A candidate against the baseline, on the items that both have.

    Differences are candidate minus baseline: positive ones favor the candidate, with the direction
    ``minimize`` negative ones. ``gained`` and ``lost`` are the items whose value is better and
    worse than the baseline's; their lists hold the first 1,000 rows of the file each.
    ``p_adjusted`` is corrected for the number of comparisons (Holm).
    """

    candidate: str = Field(description="Id of the evaluation that is compared with the baseline.")
    benchmark: str | None = Field(
        default=None, description="Name of the benchmark; null: evaluations of one."
    )
    value: ComparedValue = Field(
        default="correct", description="Value that is compared: correct or score."
    )
    direction: Direction = Field(
        default="maximize", description="Whether higher or lower values are better."
    )
    better: Literal["baseline", "candidate"] | None = Field(
        default=None,
        description="Significantly better model (``p_adjusted`` below 0.05); null without one.",
    )
    items: int = Field(description="Number of compared items.")
    left_out: int = Field(
        description="Number of items that are not compared: an evaluation lacks them, or the "
        "infrastructure lost all its samples of them."
    )
    baseline_errors: int = Field(
        description="Number of items of the baseline with a sample that has no grade."
    )
    candidate_errors: int = Field(
        description="Number of items of the candidate with a sample that has no grade."
    )
    baseline_mean: float = Field(description="Mean value of the baseline.")
    candidate_mean: float = Field(description="Mean value of the candidate.")
    difference: float = Field(description="Mean of the candidate minus that of the baseline.")
    stderr: float = Field(description="Standard error of the difference, over items.")
    ci95: tuple[float, float] = Field(description="95 % confidence interval of the difference.")
    test: Literal["mcnemar", "paired_t", "paired_permutation"] = Field(
        description="Test that the p-value and the interval come from."
    )
    p_value: float = Field(
        description="Two-sided p-value of the difference; below 0.05 exactly where `ci95` "
        "leaves out 0."
    )
    exact_p_value: float | None = Field(
        default=None,
        description="p-value of McNemar's exact test; null unless the value of every item is 0 or "
        "1.",
    )
    p_adjusted: float = Field(description="p-value corrected for the number of comparisons (Holm).")
    gained: int = Field(description="Number of items on which the candidate is better.")
    lost: int = Field(description="Number of items on which the candidate is worse.")
    gained_items: list[int] = Field(
        description="First 1,000 rows on which the candidate is better, counted from 0."
    )
    lost_items: list[int] = Field(
        description="First 1,000 rows on which the candidate is worse, counted from 0."
    )
    tool_calls: ToolCallComparison | None = Field(
        default=None,
        description="Tool-call scores of both; null without the grader tool_calls.",
    )


class EvaluationComparison(Resource):
    """Candidates against one baseline."""

    object: Literal["evaluation.comparison"] = "evaluation.comparison"
    baseline: str = Field(description="Id of the evaluation that the others are compared with.")
    value: ComparedValue | None = Field(
        description="Value that is compared; null: comparisons differ in it."
    )
    comparisons: list[PairedComparison] = Field(
        description="Comparisons with the baseline, by candidate and benchmark."
    )
