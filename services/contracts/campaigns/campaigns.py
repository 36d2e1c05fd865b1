"""Campaigns: an LLM proposes fine-tunes of a model, and measurements decide which one is kept."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from services.contracts.base import Metadata, Number, Request, Resource
from services.contracts.campaigns.judging import AcceptancePolicy, SeedPolicy
from services.contracts.campaigns.limits import CampaignBudget, CampaignTimeLimits, Limit
from services.contracts.campaigns.llms import AnswerCaching, CampaignLlm, LlmRole, ScriptLlms
from services.contracts.campaigns.loops import StepName
from services.contracts.data.datasets import DatasetName
from services.contracts.engine import VllmOptions
from services.contracts.evaluation.benchmark_entries import BenchmarkName
from services.contracts.evaluation.benchmarks import Benchmark, benchmark_of
from services.contracts.jobs import GpuIndex, GpuUuid, JobRequest, JobState
from services.contracts.models.registered import ModelId
from services.contracts.rewards.graders import ExactGrader
from services.contracts.rewards.openai_graders import JudgeModel
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.sampling import ChatTemplateKwargs, Sampling
from services.contracts.validation import AtField, given_of

MIN_ITEMS = 10
"""Minimum number of items in the search part and in the final part of a benchmark."""


class CampaignDataset(Request):
    """Rows that data scripts read as ``datasets/<name>.jsonl``: a registered data set, or a file
    that was uploaded."""

    name: DatasetName = Field(
        description="Name that scripts read the data set by; without `file` that of a registered "
        "one."
    )
    file: str = Field(
        default="",
        max_length=200,
        description="File id of the data set; empty: the file of the registered data set.",
    )
    description: str = Field(
        default="", max_length=10_000, description="Content of the data set, as the LLM reads it."
    )


class ParentPolicy(StrEnum):
    """Which accepted model a loop starts from."""

    BEST = "best"  # the best so far
    SPREAD = "spread"  # the best so far that no loop under way has started from, else the best


AtOnce = Annotated[StrictInt, Field(ge=1, le=64)]


class CreateCampaign(JobRequest):
    """The body of POST /v1/campaigns.

    The rows of ``file`` are divided into a search part, whose scores guide the LLM, and a final
    part that it never sees.
    """

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("file", "datasets.*.file")

    base_model: ModelId = Field(description="Registered model that every loop fine-tunes.")
    scenario: str = Field(
        min_length=1, max_length=20_000, description="Task description: what the model is to do."
    )
    file: str = Field(
        min_length=1,
        max_length=200,
        description="Benchmark file: rows of {messages | prompt, gold}.",
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
    judge: JudgeModel | None = Field(
        default=None,
        description="Language model that grades again what the rule called wrong, as in "
        "evaluations; for aime24, aime25 and benchmarks with answer_range only.",
    )
    benchmark_rows: StrictInt | None = Field(
        default=None,
        ge=2 * MIN_ITEMS,
        description="Number of rows, from the first, that the benchmark is limited to; null: all.",
    )
    samples_per_item: StrictInt = Field(
        default=1,
        ge=1,
        le=1024,
        description="Answers per row, whose mean is its score; several need a temperature above 0.",
    )
    pass_k: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Value k of pass@k, which replaces the mean as the score of an item; null: the "
        "mean.",
    )
    higher_is_better: StrictBool = Field(
        default=True,
        description="Whether higher scores are better; a benchmark of your own with a metric or a "
        "direction sets it.",
    )
    acceptance: AcceptancePolicy = Field(
        default_factory=AcceptancePolicy,
        description="Acceptance criterion for the gain over the best model.",
    )
    seeds: SeedPolicy = Field(
        default_factory=SeedPolicy,
        description="Policy for repeating a training with further seeds where the search part is "
        "small.",
    )
    final_share: Number = Field(
        default=0.5,
        ge=0.1,
        le=0.9,
        description="Fraction of the benchmark that is reserved for the final score.",
    )
    splits: Literal["by_question", "published"] = Field(
        default="by_question",
        description="Division of the benchmark. `by_question`: a share of the questions, by their "
        "hashes, is the final part. `published`: the parts that an evaluation with "
        "`split` has; equal questions may be in both.",
    )
    sampling: Sampling = Field(
        default_factory=Sampling, description="Sampling settings of the evaluations."
    )
    system_prompt: str | None = Field(
        default=None, max_length=100_000, description="System message of the benchmark's prompts."
    )
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server of evaluations."
    )
    datasets: list[CampaignDataset] = Field(
        default_factory=list,
        max_length=50,
        description="Data sets that data scripts may use; empty: all registered ones.",
    )
    llm: CampaignLlm = Field(description="LLM that proposes, codes and explains.")
    llm_by_role: dict[LlmRole, CampaignLlm] = Field(
        default_factory=dict, description="LLMs that override `llm` for one role."
    )
    script_llms: ScriptLlms | None = Field(
        default=None, description="LLMs for data scripts; null: scripts have no network."
    )
    answer_cache: AnswerCaching = Field(
        default_factory=AnswerCaching,
        description="Sharing of the LLM's answers with other campaigns.",
    )
    budget: CampaignBudget = Field(
        default_factory=CampaignBudget, description="Limits at which the campaign ends."
    )
    time_limits: CampaignTimeLimits = Field(
        default_factory=CampaignTimeLimits, description="Time limits of the steps of a loop."
    )
    branches: StrictInt = Field(
        default=1, ge=1, le=64, description="Number of loops that run at once."
    )
    parents: ParentPolicy = Field(
        default=ParentPolicy.BEST,
        description="Policy that chooses the accepted models that loops start from.",
    )
    steps_at_once: dict[Literal[StepName.CODING, StepName.RUNNING], AtOnce] = Field(
        default_factory=dict,
        description="Maximum concurrent loops per step (default: all branches).",
    )
    training_rows: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Number of rows, from the first, of a script's data that are trained on; null: "
        "all.",
    )
    reuse_data: StrictBool = Field(
        default=False,
        description="Whether a loop whose script equals that of an earlier loop reuses its data.",
    )
    sample_rows: StrictInt = Field(
        default=3, ge=1, le=20, description="Number of rows of each data set that the LLM is shown."
    )
    log_conversations: StrictBool = Field(
        default=True,
        description="Whether to write the conversations with the LLM into the log folder.",
    )
    gpus: StrictInt | None = Field(
        default=None, ge=0, le=64, description="GPUs of each training and evaluation."
    )
    devices: list[GpuIndex | GpuUuid] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="GPUs that each training and evaluation waits for and uses, and no others.",
    )
    after: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Campaigns that must end before the first step of this one.",
    )
    priority: StrictInt = Field(
        default=0, ge=-100, le=100, description="Priority of the campaign and of its jobs."
    )
    deadline_seconds: StrictInt | None = Field(
        default=None,
        ge=1,
        le=315_360_000,
        description="Seconds from the submission after which the campaign fails; null: none.",
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the campaign: up to 16 pairs of strings, by which jobs can be "
        "listed.",
    )

    @property
    def file_references(self) -> dict[str, str]:
        """The file of items and those of data sets, by field, as ``datasets.0.file``."""
        named = {f"datasets.{number}.file": each.file for number, each in enumerate(self.datasets)}
        return {"file": self.file} | {field: file for field, file in named.items() if file}

    def with_file_references(self, ids: Mapping[str, str]) -> Self:
        """The same campaign with other references in the named fields."""
        datasets = [
            each.model_copy(update={"file": ids.get(f"datasets.{number}.file", each.file)})
            for number, each in enumerate(self.datasets)
        ]
        return self.model_copy(update={"file": ids.get("file", self.file), "datasets": datasets})

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [each.name for each in self.datasets]
        if len(set(names)) < len(names):
            raise AtField("datasets", "two datasets have the same name")
        return self

    @model_validator(mode="after")
    def _graded_as_the_benchmark(self) -> Self:
        if self.benchmark is not None:
            grader = benchmark_of(self.benchmark).grader
            if "grader" in self.model_fields_set and self.grader != grader:
                raise AtField("grader", "benchmark sets the grader: give one of them")
            self.grader = grader
        return self

    @model_validator(mode="after")
    def _judged_beside_a_rule(self) -> Self:
        if self.judge is None:
            return self
        if self.benchmark is None or benchmark_of(self.benchmark).answer_range is None:
            raise AtField("judge", "judge is for aime24, aime25 and benchmarks with answer_range")
        return self

    @model_validator(mode="after")
    def _better_as_the_benchmark(self) -> Self:
        if not isinstance(self.benchmark, Benchmark):
            return self
        if self.benchmark.metric in {"majority", "pass_at_k"}:
            raise AtField(
                ("benchmark", "metric"),
                f"benchmark.metric: {self.benchmark.metric} is not that of single items: give "
                "accuracy, mean_score, or none and pass_k",
            )
        if self.benchmark.direction is not None or self.benchmark.metric is not None:
            higher = self.benchmark.direction != "minimize"
            if "higher_is_better" in self.model_fields_set and self.higher_is_better != higher:
                raise AtField(
                    "higher_is_better", "the benchmark says what is better: no higher_is_better"
                )
            self.higher_is_better = higher
        return self

    @property
    def compares_correctness(self) -> bool:
        """Whether the scores of items are fractions of correct answers."""
        return isinstance(self.benchmark, Benchmark) and self.benchmark.metric == "accuracy"

    @model_validator(mode="after")
    def _one_division(self) -> Self:
        default = type(self).model_fields["final_share"].default
        if self.splits == "published" and self.final_share != default:
            raise AtField("final_share", "published splits have no final_share: give one of them")
        return self

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.samples_per_item > 1 and self.sampling.temperature == 0:
            raise AtField(
                "samples_per_item", "samples_per_item above 1 needs sampling.temperature above 0"
            )
        if self.pass_k is not None and self.pass_k > self.samples_per_item:
            raise AtField("pass_k", f"pass_k needs at least {self.pass_k} samples_per_item")
        if self.pass_k is not None and not self.higher_is_better:
            raise AtField("pass_k", "pass_k counts correct answers, of which more are better")
        return self

    @model_validator(mode="after")
    def _cost_has_a_price(self) -> Self:
        if self.budget.cost is None:
            return self
        for role in LlmRole:
            if self.llm_for(role).price is None:
                where = f"llm_by_role.{role.value}" if role in self.llm_by_role else "llm"
                raise AtField(("budget", "cost"), f"budget.cost needs {where}.price")
        if self.script_llms is not None:
            for llm in self.script_llms.by_model.values():
                if llm.price is None:
                    raise AtField(
                        ("budget", "cost"),
                        f"budget.cost needs the price of {llm.model} in script_llms",
                    )
        return self

    @property
    def llms(self) -> list[CampaignLlm]:
        """All LLMs of the campaign: by role, and those of scripts."""
        scripts = self.script_llms
        by_role = [self.llm_for(role) for role in LlmRole]
        return [*by_role, *(scripts.by_model.values() if scripts else ())]

    def llm_for(self, role: LlmRole) -> CampaignLlm:
        """The LLM of a role."""
        return self.llm_by_role.get(role, self.llm)


class RewindCampaign(Request):
    """The body of POST /v1/campaigns/{id}/rewind: the step to repeat."""

    loop: StrictInt = Field(
        ge=0, le=1000, description="Number of the loop to repeat; 0: the base model."
    )
    step: StepName = Field(
        default=StepName.PROPOSAL, description="First step of the loop to repeat."
    )

    @model_validator(mode="after")
    def _loop_has_the_step(self) -> Self:
        if (self.loop == 0) != (self.step is StepName.BASE):
            field = given_of(self, "step", "loop")
            raise AtField(field, f"loop {self.loop} has no step {self.step.value}")
        return self


class ForkCampaign(RewindCampaign):
    """The body of POST /v1/campaigns/{id}/fork; omitted fields are those of the forked campaign."""

    budget: CampaignBudget | None = Field(
        default=None,
        description="Limits at which the new campaign ends; null: those of the forked one.",
    )
    llm: CampaignLlm | None = Field(
        default=None,
        description="LLM that proposes, codes and explains; null: that of the forked campaign.",
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the new campaign: up to 16 pairs of strings; null: those of the "
        "forked one.",
    )


class CampaignResult(Resource):
    """How a campaign ended: ``ended_by`` is the limit of the budget that was reached."""

    ended_by: Limit = Field(description="Limit of the budget that ended the campaign.")
    best_loop: int = Field(description="Number of the loop with the best model; 0: the base model.")
    best_model: str = Field(description="Name of the best model.")
    llm_tokens: int = Field(
        description="Prompt and completion tokens of the LLMs, those of data scripts included."
    )
    cost: float | None = Field(
        default=None,
        description="Cost of the LLMs, in the currency of their prices; null where one has no "
        "price.",
    )


class Campaign(JobState):
    """A campaign. Its ``progress`` counts steps."""

    object: Literal["campaign"] = "campaign"
    base_model: str = Field(description="Registered model that every loop fine-tunes.")
    scenario: str = Field(description="Task description: what the model is to do.")
    budget: CampaignBudget = Field(description="Limits at which the campaign ends.")
    branches: int = Field(default=1, description="Number of loops that run at once.")
    parents: ParentPolicy = Field(
        default=ParentPolicy.BEST,
        description="Policy that chooses the accepted models that loops start from.",
    )
    acceptance: AcceptancePolicy = Field(
        default_factory=AcceptancePolicy,
        description="Acceptance criterion for the gain over the best model.",
    )
    seeds: SeedPolicy = Field(
        default_factory=SeedPolicy,
        description="Policy for repeating a training with further seeds.",
    )
    result: CampaignResult | None = Field(
        default=None, description="Outcome of the campaign; null until it has succeeded."
    )
