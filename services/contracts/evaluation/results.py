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

    mean: float = Field(description="Mean over items.")
    stderr: float = Field(description="Standard error of the mean, over items.")
    ci95: tuple[float, float] = Field(description="95 % confidence interval of the mean.")


class MacroAverage(Resource):
    """The unweighted mean over the benchmarks of an evaluation, each by its main metric.

    ``stderr`` and ``ci95`` of ``mean`` are made of those of the benchmarks, which are independent.
    """

    metrics: dict[str, str] = Field(
        default_factory=dict, description="Name of the averaged metric, by benchmark."
    )
    mean: ItemEstimate | None = Field(
        default=None,
        description="Unweighted mean of the benchmarks' main metrics; null: missing says why.",
    )
    missing: str | None = Field(
        default=None, description="Reason why there is no mean; null: there is one."
    )


class TrainingOverlap(Resource):
    """How many items of the benchmark a training file of the model or of its ancestors holds."""

    file: str = Field(description="Training file that was searched.")
    compared: int = Field(
        description="Number of items that were looked for: at most the first 20,000."
    )
    items: int = Field(
        description="Number of compared items that occur in a row as a whole, or with 13 "
        "consecutive words."
    )
    rows: int = Field(description="Number of rows of the training file.")


class MeasureEstimate(Resource):
    """The mean of a number that the grader reports for each answer."""

    mean: float = Field(
        description="Mean of the measure over these answers, by the grader's rules."
    )
    samples: int = Field(description="Number of answers that have the measure.")
    stderr: float | None = Field(
        default=None, description="Standard error of the mean over items; null with one item."
    )
    ci95: tuple[float, float] | None = Field(
        default=None, description="95 % confidence interval of the mean; null with one item."
    )
    lower_is_better: bool = Field(
        default=False, description="Whether lower values of the measure are better."
    )


class ToolUseMetrics(Resource):
    """What the model did with its tools, over the samples that it answered.

    ``failed_calls`` were run and gave no reply; ``malformed_calls`` could not be read. ``endings``
    counts why conversations ended, as the finish reasons of rollouts.
    """

    calls: int = Field(description="Number of tool calls that were run.")
    failed_calls: int = Field(description="Number of tool calls that were run and gave no reply.")
    malformed_calls: int = Field(description="Number of tool calls that could not be read.")
    endings: dict[str, int] = Field(description="Number of conversations by finish reason.")
    per_sample: dict[str, MeasureEstimate] = Field(
        description="Means per sample of turns, calls, failed_calls and malformed_calls."
    )


class SubtaskSamples(Resource):
    """The samples of a sub-task but those that the infrastructure lost."""

    samples: int = Field(description="Number of samples of the sub-task.")
    errors: int = Field(description="Number of samples without an answer or a score.")
    unanswered: int = Field(description="Number of errors in which the model gave no answer.")


class EvaluationMetrics(Resource):
    """The outcome over all samples but those that the infrastructure lost.

    ``accuracy`` counts a sample without an answer or a score as incorrect; ``errors`` is the number
    of these. Samples that were ``left_out`` are in no other number. With several samples per item
    ``accuracy`` is avg@n. ``stderr`` is the standard error of the mean (n - 1 in the variance),
    ``ci95`` the Wilson score interval; both are over items, since samples of an item are alike.
    ``mean_score`` counts a sample without a score as the ``worst_score``; its interval is of the
    same kind where all scores are within 0 and 1, or a score model's range, and normal elsewhere.
    """

    samples: int = Field(
        description="Number of samples, without those that the infrastructure lost."
    )
    correct: int = Field(description="Number of correct samples.")
    errors: int = Field(
        description="Number of samples without an answer or a score; they count as incorrect, "
        "and as the worst score."
    )
    items: int | None = Field(default=None, description="Number of rows that were evaluated.")
    samples_per_item: int = Field(default=1, description="Number of answers per row.")
    left_out: int = Field(
        default=0,
        description="Number of samples lost to failing tools, graders or engines; no other number "
        "has them.",
    )
    left_out_causes: dict[InfrastructureCause, int] | None = Field(
        default=None, description="Number of lost samples by cause; null: none was lost."
    )
    unanswered: int = Field(
        default=0, description="Number of errors in which the model gave no answer."
    )
    unparsable: int = Field(
        default=0,
        description="Number of graded answers in which a grader with golds found nothing to "
        "compare.",
    )
    cut_off: int | None = Field(
        default=None,
        description="Number of answers that ended at max_tokens, or at a limit of the conversation "
        "with tools, before the model had finished; graded as they are. Null: not counted, as in "
        "results from before this field existed.",
    )
    parsing: dict[ParsingOutcome, int] | None = Field(
        default=None,
        description="Number of answers by what became of their JSON; null unless it was graded.",
    )
    pass_at_k: dict[str, ItemEstimate] | None = Field(
        default=None,
        description="Unbiased pass@k by k; an item of which the infrastructure left fewer than k "
        "samples counts with those. Null with one sample per item.",
    )
    majority: ItemEstimate | None = Field(
        default=None,
        description="Estimate of maj@n: whether the compared answer of an item that most samples "
        "have or equal is right; null with one sample per item, and for graders that name no "
        "compared answer.",
    )
    measures: dict[str, dict[str, MeasureEstimate]] | None = Field(
        default=None,
        description="Means by sub-task and name, for a grader that gives more than a score.",
    )
    subtasks: dict[str, SubtaskSamples] | None = Field(
        default=None,
        description="Samples by sub-task, for a grader that names those of rows; null: it does "
        "not, or the result is from before this field existed.",
    )
    tool_use: ToolUseMetrics | None = Field(
        default=None,
        description="Usage of tools; null without tools, and where no sample was answered.",
    )
    tool_calls: ToolCallScores | None = Field(
        default=None, description="Scores of tool calls; null without the grader tool_calls."
    )
    grader_metric: MainMetric | None = Field(
        default=None,
        description="Main metric by the grader's definition, unless the benchmark declares "
        "another; null: the grader names none.",
    )
    accuracy: float = Field(
        description="Share of correct samples, from 0 to 1; avg@n with several samples per item."
    )
    mean_score: float | None = Field(
        default=None,
        description="Mean score of the samples, in the grader's unit; one without a score counts "
        "as worst_score. Null: none was scored, and 0 could be the best score.",
    )
    worst_score: float | None = Field(
        default=None,
        description="Worst score of a sample, or 0 where that is worse: what samples without a "
        "score count as in mean_score. Null: mean_score leaves them out, as before this field "
        "existed, or is null.",
    )
    mean_score_stderr: float | None = Field(
        default=None,
        description="Standard error of the mean score, over items; null with fewer than two.",
    )
    mean_score_ci95: tuple[float, float] | None = Field(
        default=None,
        description="95 % confidence interval of the mean score; null with fewer than two items.",
    )
    stderr: float = Field(description="Standard error of the accuracy, over items.")
    ci95: tuple[float, float] = Field(
        description="95 % confidence interval of the accuracy (Wilson score), over items."
    )
    prompt_tokens: int = Field(description="Number of prompt tokens of all samples.")
    completion_tokens: int = Field(description="Number of sampled tokens of all samples.")
    generation_seconds: float = Field(
        description="Seconds spent on answers, over all attempts of the job; of several "
        "benchmarks, each has the share that it has of the sampled tokens."
    )
    tokens_per_second: float = Field(description="Mean rate of sampled tokens per second.")
    training_overlap: list[TrainingOverlap] | None = Field(
        default=None,
        description="Items found in training files, by file; null for a model whose training data "
        "are not here.",
    )

    @property
    def cut_off_share(self) -> float | None:
        """The share of the answers that were cut off; None without answers, or uncounted."""
        answers = self.samples - self.unanswered
        return None if self.cut_off is None or not answers else self.cut_off / answers

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

    trajectory: str = Field(description="Id of the conversation's trajectory in this job.")
    turns: int = Field(description="Number of turns of the model.")
    calls: int = Field(description="Number of calls that were run.")
    failed_calls: int = Field(description="Number of calls that were run and gave no reply.")
    malformed_calls: int = Field(description="Number of calls that could not be read.")


class SampleResult(Resource):
    """One row of an evaluation: the answer and its grade.

    ``correct`` is null without an answer or a score; ``error`` then says why, with the HTTP status
    if the model gave no answer. With ``left_out`` the row counts nowhere.
    """

    id: str = Field(description="Id of the row.")
    object: Literal["evaluation.result"] = "evaluation.result"
    benchmark: str | None = Field(
        default=None, description="Name of the benchmark; null: an evaluation of one."
    )
    index: int = Field(description="Row of the file, counted from 0.")
    sample: int = Field(
        default=0, description="Number of the sample among those of the row, from 0."
    )
    prompt: str | None = Field(
        default=None, description="Beginning of the prompt, up to 8,000 characters."
    )
    tags: list[str] = Field(
        default_factory=list,
        description="The row's `tag` and `tags`, its sub-task, and `disputed` where a second "
        "opinion differs from the grade.",
    )
    gold: list[str] = Field(description="Accepted answers.")
    answer: str | None = Field(description="Answer of the model; null without one.")
    extracted: str | None = Field(
        default=None, description="Part of the answer that the grader compared."
    )
    vote: str | None = Field(
        default=None,
        description="Normal form of `extracted`, which equal answers share and which votes for "
        "maj@n; null: `extracted` itself votes.",
    )
    parsing: ParsingOutcome | None = Field(
        default=None, description="Outcome of reading JSON from the answer; null: it was not read."
    )
    group: str | None = Field(default=None, description="Sub-task of the row; null: none.")
    measures: dict[str, float] | None = Field(
        default=None, description="Measures of the answer beside its score, by name."
    )
    tools: ToolUse | None = Field(default=None, description="Use of tools; null without tools.")
    score: float | None = Field(
        default=None, description="Score of the answer, in the grader's unit; null without one."
    )
    correct: bool | None = Field(
        description="Whether the answer is correct; null without an answer or a score."
    )
    finish_reason: str | None = Field(
        default=None,
        description="Finish reason of the endpoint; with tools, that of the conversation.",
    )
    error: str | None = Field(
        default=None, description="Reason why there is no answer or score; null: there is."
    )
    left_out: LeftOut | None = Field(
        default=None, description="Loss of the sample to failing infrastructure; null: none."
    )
    status_code: int | None = Field(
        default=None,
        description="HTTP status of the model's response, 200 with an answer; null: no response.",
    )
    attempts: int = Field(
        default=1, description="Number of requests for the answer; 1 for a conversation with tools."
    )
    latency_seconds: float | None = Field(
        default=None,
        description="Seconds of the successful request, or of the whole conversation with tools; "
        "null without an answer.",
    )
    prompt_tokens: int | None = Field(
        default=None, description="Number of prompt tokens; null: not reported, or no answer."
    )
    completion_tokens: int | None = Field(
        default=None, description="Number of sampled tokens; null: not reported, or no answer."
    )

    @property
    def outcome(self) -> ResultOutcome:
        """The outcome of the row."""
        if self.correct is None:
            return "failed"
        return "correct" if self.correct else "wrong"
