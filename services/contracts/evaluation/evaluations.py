"""Evaluations: a model answers the prompts of a file, and a grader grades the answers."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, StrictInt, ValidationError, model_validator

from services.contracts.base import Number, Resource
from services.contracts.engine import VllmOptions
from services.contracts.evaluation.benchmark_entries import BenchmarkEntry, BenchmarkName, FileId
from services.contracts.evaluation.benchmarks import Benchmark, SplitName, benchmark_of, graded_by
from services.contracts.evaluation.metrics import Direction, MainMetric, MetricName
from services.contracts.evaluation.results import EvaluationMetrics, MacroAverage
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.registered import RemoteModel
from services.contracts.rewards.graders import BoxedIntegerGrader, ExactGrader, MetricsVariant
from services.contracts.rewards.openai_graders import JudgeModel, ScoreModelGrader
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.rollouts.multi_turn import MultiTurn, Tool
from services.contracts.sampling import ChatTemplateKwargs, JsonPrediction, Sampling
from services.contracts.validation import (
    AtField,
    Fault,
    FieldPath,
    first_fault,
    given_of,
    is_given,
)

MAX_BENCHMARKS = 50


class CreateEvaluation(JobRequest):
    """The body of POST /v1/evaluations."""

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("file", "benchmarks.*.file")

    model: str | RemoteModel = Field(
        examples=["tiny-base"],
        description="Registered model or checkpoint, or a model behind a URL.",
    )
    file: FileId | None = Field(
        default=None,
        description="Benchmark file: rows of {messages | prompt, gold}; graders with templates "
        "need no gold.",
        examples=["file-abc123"],
    )
    grader: EvaluationGrader = Field(
        default_factory=ExactGrader,
        description="Grader of the answers; a named benchmark sets its own.",
    )
    benchmark: BenchmarkName | Benchmark | None = Field(
        default=None,
        description="The data set that the file holds, in its published schema; it sets the "
        "prompts and the grader.",
    )
    benchmarks: list[BenchmarkEntry] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_BENCHMARKS,
        description="Several benchmarks, in place of file and benchmark; settings of the "
        "evaluation apply to those without their own.",
    )
    metrics: MetricsVariant = Field(
        default="official",
        description="Definition of the metrics of panorama and chemcotbench. `fork`: as RD-Agent's "
        "fork of OpenCompass defines them, for comparison with its tables.",
    )
    split: SplitName | None = Field(
        default=None,
        description="Part of each sub-task of n rows: the first (`search`) or the last (`final`) "
        "min(100, n // 2) rows; `max_samples` takes the first of these.",
    )
    pass_threshold: Number | None = Field(
        default=None,
        description="The score from which an answer counts as correct; null: the grader's "
        "highest, which is 1 or the upper end of a score model's range. Where lower scores are "
        "better, the score up to which it does; null: 0 or the lower end.",
    )
    sampling: Sampling = Field(
        default_factory=Sampling, description="Sampling settings of the answers."
    )
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    system_prompt: str | None = Field(
        default=None, max_length=100_000, description="System message before every prompt."
    )
    keep_reasoning: bool = Field(
        default=False,
        description="Whether graders see the whole answer instead of the part after the reasoning.",
    )
    prediction: JsonPrediction | None = Field(
        default=None,
        description="Grading of a value in the JSON of an answer, in place of the text; an answer "
        "without it is wrong.",
    )
    judge: JudgeModel | None = Field(
        default=None,
        description="Judge of aime24 and aime25: a language model that sees only the answers that "
        "the rule called wrong, for a second score beside that of the rule.",
    )
    tools: list[Tool] = Field(
        default_factory=list,
        max_length=32,
        description="Tools that the model may call before it answers, as in rollouts.",
    )
    multi_turn: MultiTurn | None = Field(
        default=None, description="Limits of the conversations with tools."
    )
    max_samples: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Maximum number of rows, from the first, to evaluate on; null: all.",
    )
    samples_per_item: StrictInt = Field(
        default=1,
        ge=1,
        le=1024,
        description="Number of answers per row, for avg@n, maj@n and pass@k; several need a "
        "temperature above 0.",
    )
    max_concurrency: StrictInt = Field(
        default=64, ge=1, le=1024, description="Maximum concurrent requests to the model."
    )
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server of a local model."
    )
    fresh: bool = Field(
        default=False,
        description="Whether to ask the model even if an equal evaluation has finished.",
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.file is None) == (self.benchmarks is None):
            raise AtField("file", "give either file or benchmarks")
        if self.benchmarks is None:
            return self
        if self.benchmark is not None:
            raise AtField("benchmark", "benchmark says what file holds: give it in benchmarks")
        if self.judge is not None:
            raise AtField("judge", "judge is that of a benchmark: give it in benchmarks")
        given = self.benchmarks
        entries: list[BenchmarkEntry] = []
        places: list[int] = []
        for place, entry in enumerate(given):
            try:
                parts = entry.entries()
            except AtField as error:
                raise error.below("benchmarks", place) from None
            entries += parts
            places += [place] * len(parts)
        names = [entry.name for entry in entries]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise AtField(
                "benchmarks", f"benchmarks: two are named {', '.join(map(str, repeated))}"
            )
        self.benchmarks = [self._with_sampling(entry) for entry in entries]
        for place, entry in zip(places, self.benchmarks, strict=True):
            try:
                self._alone(entry)
            except ValidationError as error:
                fault = first_fault(error)
                message = f"benchmarks: {entry.name}: {fault.message}"
                raise AtField(self._source_of(fault, given[place], place), message) from None
        return self

    def _source_of(self, fault: Fault, entry: BenchmarkEntry, place: int) -> FieldPath:
        """The field that gave one of the benchmarks the value at fault: its own, else that of the
        evaluation."""
        if is_given(entry, fault.location):
            return ("benchmarks", place, *fault.location)
        return fault.location if is_given(self, fault.location) else ("benchmarks", place)

    def _with_sampling(self, entry: BenchmarkEntry) -> BenchmarkEntry:
        """The benchmark with the evaluation's sampling, except where it has settings of its own."""
        if entry.sampling is None:
            return entry
        own = {name: getattr(entry.sampling, name) for name in entry.sampling.model_fields_set}
        return entry.model_copy(update={"sampling": self.sampling.model_copy(update=own)})

    @property
    def file_references(self) -> dict[str, str]:
        """Every file of the job, by the field that names it, as ``benchmarks.0.file``."""
        if self.benchmarks is None:
            return {"file": self.only_file}
        asked = self.by_benchmark().values()
        return {f"benchmarks.{number}.file": each.only_file for number, each in enumerate(asked)}

    def with_file_references(self, ids: Mapping[str, str]) -> Self:
        """The same job with other references in the named fields."""
        if self.benchmarks is None:
            return self.model_copy(update=dict(ids))
        entries = [
            entry.model_copy(update={"file": ids.get(place, entry.file)})
            for place, entry in zip(self.file_references, self.benchmarks, strict=True)
        ]
        return self.model_copy(update={"benchmarks": entries})

    def by_benchmark(self) -> dict[str | None, "CreateEvaluation"]:
        """Each benchmark as an evaluation by itself, by its name; None names the only one.

        Raises `ValidationError` for a benchmark whose settings do not go together.
        """
        if self.benchmarks is None:
            return {None: self}
        return {entry.name: self._alone(entry) for entry in self.benchmarks}

    def _alone(self, entry: BenchmarkEntry) -> "CreateEvaluation":
        of_each = {"file", "benchmark", "benchmarks", "grader", "judge"}
        shared = {name: getattr(self, name) for name in self.model_fields_set - of_each}
        given = {name: getattr(entry, name) for name in type(entry).model_fields}
        own = {name: value for name, value in given.items() if value is not None}
        del own["name"]
        if entry.benchmark is None and entry.grader is None:
            own["grader"] = self.grader
        return CreateEvaluation(**{**shared, **own})

    @model_validator(mode="after")
    def _graded_as_the_benchmark(self) -> Self:
        if self.benchmark is None:
            if self.metrics != "official" and self.benchmarks is None:
                raise AtField("metrics", "metrics are those of a benchmark, which is missing")
        else:
            grader = graded_by(self.benchmark, self.metrics)
            if "grader" in self.model_fields_set and self.grader != grader:
                raise AtField("grader", "benchmark sets the grader: give one of them")
            self.grader = grader
        return self

    @model_validator(mode="after")
    def _judged_beside_a_rule(self) -> Self:
        if self.judge is None or self.benchmarks is not None:
            return self
        bounds = None if self.benchmark is None else benchmark_of(self.benchmark).answer_range
        if bounds is None or not isinstance(self.grader, BoxedIntegerGrader):
            raise AtField(
                "judge",
                "judge is for aime24, aime25 and benchmarks with answer_range and the grader "
                "boxed_integer",
            )
        return self

    @model_validator(mode="after")
    def _one_view_of_answers(self) -> Self:
        if self.prediction is not None and self.keep_reasoning:
            raise AtField(
                "keep_reasoning",
                "prediction reads JSON behind the reasoning: without keep_reasoning",
            )
        return self

    @model_validator(mode="after")
    def _can_draft(self) -> Self:
        self.engine.check_drafts(self.sampling.min_p)
        return self

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.samples_per_item > 1 and self.sampling.temperature == 0:
            raise AtField(
                "samples_per_item",
                "samples_per_item above 1 needs sampling.temperature above 0: greedy samples of "
                "an item are all alike",
            )
        if self.main_metric[0] in {"majority", "pass_at_k"} and self.samples_per_item == 1:
            raise AtField(
                given_of(self, "samples_per_item", ("benchmark", "metric")),
                f"benchmark.metric: {self.main_metric[0]} needs samples_per_item above 1",
            )
        return self

    @property
    def main_metric(self) -> tuple[MetricName | None, Direction]:
        """What a benchmark of one's own declares; a null metric is that of the grader."""
        return declared_metric(self.benchmark)

    @property
    def conversation(self) -> MultiTurn | None:
        """How conversations with tools go; None without tools, which enable several turns."""
        if not self.tools:
            return None
        given = self.multi_turn or MultiTurn()
        return given.model_copy(update={"multi_turn_enable": True})

    @property
    def only_file(self) -> str:
        """The file of an evaluation of one benchmark, such as those of `by_benchmark`."""
        if self.file is None:
            raise ValueError("an evaluation of several benchmarks has a file for each")
        return self.file

    @property
    def passing_score(self) -> float:
        """`pass_threshold`, or its default."""
        if self.pass_threshold is not None:
            return self.pass_threshold
        lowest, highest = 0.0, 1.0
        if isinstance(self.grader, ScoreModelGrader):
            lowest, highest = self.grader.range
        return lowest if self.main_metric[1] == "minimize" else highest


def declared_metric(benchmark: str | Benchmark | None) -> tuple[MetricName | None, Direction]:
    """The metric that a benchmark declares, if any, and the direction of improvement."""
    if not isinstance(benchmark, Benchmark):
        return None, "maximize"
    return benchmark.metric, benchmark.direction or "maximize"


class BenchmarkOutcome(Resource):
    """One benchmark of an evaluation: its settings and results."""

    name: str | None = Field(default=None, description="Name of the benchmark in rows and metrics.")
    file: str = Field(description="File with the rows of the benchmark.")
    grader: EvaluationGrader = Field(description="Grader of the answers.")
    benchmark: str | Benchmark | None = Field(
        default=None, description="Benchmark by name, or one of your own."
    )
    split: SplitName | None = Field(
        default=None, description="Part of the rows that was evaluated; null: all."
    )
    pass_threshold: float | None = Field(
        default=None,
        description="Score from which an answer counts as correct, or up to which where lower "
        "scores are better; null: the grader's best.",
    )
    prediction: JsonPrediction | None = Field(
        default=None, description="Value in the JSON of an answer that is graded; null: the text."
    )
    keep_reasoning: bool = Field(
        default=False, description="Whether the reasoning in an answer is graded with it."
    )
    sampling: Sampling = Field(description="Sampling settings of the answers.")
    samples_per_item: int = Field(default=1, description="Number of answers per row.")
    metrics: EvaluationMetrics | None = Field(
        default=None,
        description="Metrics of the benchmark; null until the evaluation has succeeded.",
    )
    main_metric: MainMetric | None = Field(
        default=None,
        description="Metric that represents the benchmark in leaderboards, comparisons and means.",
    )


class Evaluation(JobState):
    """An evaluation job. One of several benchmarks has its files, graders and metrics in
    ``benchmarks``, in place of the fields of the same names."""

    object: Literal["evaluation"] = "evaluation"
    model: str | RemoteModel = Field(
        description="Registered model or checkpoint, or a model behind a URL."
    )
    file: str | None = Field(
        default=None, description="File with the rows; null with several benchmarks."
    )
    grader: EvaluationGrader | None = Field(
        default=None, description="Grader of the answers; null with several benchmarks."
    )
    benchmark: str | Benchmark | None = Field(
        default=None, description="Benchmark by name, or one of your own; null: none, or several."
    )
    benchmarks: list[BenchmarkOutcome] | None = Field(
        default=None, description="Outcomes by benchmark, of an evaluation of several; null: one."
    )
    split: SplitName | None = Field(
        default=None, description="Part of the rows that is evaluated; null: all."
    )
    pass_threshold: float | None = Field(
        default=None,
        description="Score from which an answer counts as correct, or up to which where lower "
        "scores are better; null: the grader's best.",
    )
    prediction: JsonPrediction | None = Field(
        default=None, description="Value in the JSON of an answer that is graded; null: the text."
    )
    keep_reasoning: bool = Field(
        default=False, description="Whether the reasoning in an answer is graded with it."
    )
    sampling: Sampling = Field(description="Sampling settings of the answers.")
    tools: list[Tool] = Field(
        default_factory=list, description="Tools that the model may call before it answers."
    )
    multi_turn: MultiTurn | None = Field(
        default=None, description="Limits of the conversations with tools; null without tools."
    )
    samples_per_item: int = Field(default=1, description="Number of answers per row.")
    metrics: EvaluationMetrics | None = Field(
        default=None,
        description="Metrics over all samples; null until the job has succeeded, and with several "
        "benchmarks.",
    )
    main_metric: MainMetric | None = Field(
        default=None,
        description="Metric that represents the benchmark in leaderboards and comparisons.",
    )
    macro_average: MacroAverage | None = Field(
        default=None, description="Mean over several benchmarks, once all have metrics."
    )
    cached_from: str | None = Field(
        default=None,
        description="Id of the equal evaluation whose answers and grades were reused; null: none, "
        "or the job has not succeeded.",
    )
    not_cached: str | None = Field(
        default=None,
        description="Reason why no earlier answers were reused; null: they were, or the job has "
        "not succeeded.",
    )

    def outcomes(self) -> list[BenchmarkOutcome]:
        """The results of each benchmark, or of the one file alone."""
        if self.benchmarks is not None:
            return self.benchmarks
        fields = {
            name: getattr(self, name) for name in BenchmarkOutcome.model_fields.keys() - {"name"}
        }
        name = self.benchmark if isinstance(self.benchmark, str) else None
        return [BenchmarkOutcome(name=name, **fields)]
