"""The results of an evaluation: the metrics over its samples, and one row for each sample."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.evaluation.metrics import MainMetric, ToolCallScores
from services.contracts.failures import InfrastructureCause, LeftOut

ParsingOutcome = Literal["parsed", "no_json", "invalid_json"]
"""The outcome of a response that should contain JSON."""


class ItemEstimate(Resource):
    """A mean over items, with its standard error and its 95 % interval."""

    mean: float
    stderr: float
    ci95: tuple[float, float]


class MacroAverage(Resource):
    """The unweighted mean over the benchmarks of an evaluation, each by its main metric.

    ``stderr`` and ``ci95`` of ``mean`` are made of those of the benchmarks, which are independent.
    """

    metrics: dict[str, str] = Field(
        default_factory=dict, description="Averaged metric by benchmark."
    )
    mean: ItemEstimate | None = None
    missing: str | None = Field(default=None, description="Reason why there is no mean.")


class TrainingOverlap(Resource):
    """How many items of the benchmark a training file of the model or of its ancestors holds."""

    file: str
    compared: int = Field(description="Items that were looked for: at most the first 20,000.")
    items: int = Field(
        description="Number of compared items that occur in a row as a whole, or with 13 "
        "consecutive words."
    )
    rows: int = Field(description="Rows of the file.")


class MeasureEstimate(Resource):
    """The mean of a number that the grader reports for each answer."""

    mean: float
    samples: int = Field(description="Answers that have this figure.")
    stderr: float | None = Field(
        default=None, description="Standard error over items; null with one item."
    )
    ci95: tuple[float, float] | None = None
    lower_is_better: bool = False


class ToolUseMetrics(Resource):
    """What the model did with its tools, over the samples that it answered.

    ``failed_calls`` were run and gave no reply; ``malformed_calls`` could not be read. ``endings``
    counts why conversations ended, as the finish reasons of rollouts.
    """

    calls: int
    failed_calls: int
    malformed_calls: int
    endings: dict[str, int]
    per_sample: dict[str, MeasureEstimate] = Field(
        description="Means of turns, calls, failed_calls and malformed_calls."
    )


class EvaluationMetrics(Resource):
    """The outcome over all samples but those that the infrastructure lost.

    ``accuracy`` counts a sample without an answer or a score as incorrect; ``errors`` is the number
    of these. Samples that were ``left_out`` are in no other number. With several samples per item
    ``accuracy`` is avg@n. ``stderr`` is the standard error of the mean (n - 1 in the variance),
    ``ci95`` the Wilson score interval; both are over items, since samples of an item are alike.
    ``mean_score`` is the mean over the scored samples, its interval normal.
    """

    samples: int
    correct: int
    errors: int
    items: int | None = Field(default=None, description="Rows of the file.")
    samples_per_item: int = 1
    left_out: int = Field(
        default=0, description="Samples that failing tools, graders or engines lost."
    )
    left_out_causes: dict[InfrastructureCause, int] | None = None
    unanswered: int = Field(
        default=0, description="Number of errors in which the model gave no answer."
    )
    unparsable: int = Field(
        default=0, description="Graded answers in which a grader with golds found nothing."
    )
    parsing: dict[ParsingOutcome, int] | None = Field(
        default=None, description="Answers by what became of their JSON, if that was graded."
    )
    pass_at_k: dict[str, ItemEstimate] | None = Field(
        default=None, description="Unbiased pass@k by k; null with one sample per item."
    )
    majority: ItemEstimate | None = Field(
        default=None, description="maj@n: the most frequent compared answer of an item is right."
    )
    measures: dict[str, dict[str, MeasureEstimate]] | None = Field(
        default=None,
        description="Means by sub-task and name, for a grader that gives more than a score.",
    )
    tool_use: ToolUseMetrics | None = Field(
        default=None, description="Usage of tools; null without tools."
    )
    tool_calls: ToolCallScores | None = Field(
        default=None, description="Scores of tool calls; null without the grader tool_calls."
    )
    grader_metric: MainMetric | None = Field(
        default=None,
        description="Main metric by the grader's definition; null: the grader names none, and "
        "accuracy is the main metric.",
    )
    accuracy: float
    mean_score: float | None = None
    mean_score_stderr: float | None = Field(
        default=None, description="Standard error of the mean score; null with one item."
    )
    mean_score_ci95: tuple[float, float] | None = None
    stderr: float
    ci95: tuple[float, float]
    prompt_tokens: int
    completion_tokens: int
    generation_seconds: float
    tokens_per_second: float
    training_overlap: list[TrainingOverlap] | None = Field(
        default=None,
        description="Items found in training files, by file; null for a model whose training data "
        "are not here.",
    )

    @property
    def measured(self) -> dict[str, dict[str, MeasureEstimate]]:
        """All means beside the accuracy, by part: the grader's, and those of the use of tools."""
        tools = {} if self.tool_use is None else {"tools": self.tool_use.per_sample}
        return {**(self.measures or {}), **tools}


DISPUTED = "disputed"
"""The tag of a row on which the grader and its second opinion disagree."""

ResultOrder = Literal["completion", "input"]
"""The order of a list of rows: as they finish, or as in the file (and by sample)."""

ResultOutcome = Literal["correct", "wrong", "failed"]
"""How a row ended: ``failed`` is without an answer or a score."""


class ToolUse(Resource):
    """The tool calls of a sample; ``trajectory`` is its conversation's id in this job."""

    trajectory: str
    turns: int
    calls: int = Field(description="Calls that were run.")
    failed_calls: int
    malformed_calls: int


class SampleResult(Resource):
    """One row of an evaluation: the answer and its grade.

    ``correct`` is null without an answer or a score; ``error`` then says why, with the HTTP status
    if the model gave no answer. With ``left_out`` the row counts nowhere.
    """

    id: str
    object: Literal["evaluation.result"] = "evaluation.result"
    benchmark: str | None = Field(
        default=None, description="The name of the benchmark, of an evaluation of several."
    )
    index: int = Field(description="Row of the file, counted from 0.")
    sample: int = Field(
        default=0, description="Number of the sample among those of the row, from 0."
    )
    prompt: str | None = Field(
        default=None, description="The head of what was asked: up to 8,000 characters."
    )
    tags: list[str] = Field(
        default_factory=list,
        description="The row's `tag` and `tags`, its sub-task, and `disputed` where a second "
        "opinion differs from the grade.",
    )
    gold: list[str]
    answer: str | None
    extracted: str | None = Field(default=None, description="Answer as the grader compared it.")
    parsing: ParsingOutcome | None = None
    group: str | None = Field(default=None, description="The sub-task of the row.")
    measures: dict[str, float] | None = Field(
        default=None, description="Numbers of this answer beside its score."
    )
    tools: ToolUse | None = Field(default=None, description="Use of tools; null without tools.")
    score: float | None = None
    correct: bool | None
    finish_reason: str | None = Field(
        default=None, description="The endpoint's; with tools, that of the conversation."
    )
    error: str | None = None
    left_out: LeftOut | None = Field(
        default=None, description="Set where the infrastructure failed, not the answer."
    )
    status_code: int | None = None
    attempts: int = 1
    latency_seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def outcome(self) -> ResultOutcome:
        """The outcome of the row."""
        if self.correct is None:
            return "failed"
        return "correct" if self.correct else "wrong"
