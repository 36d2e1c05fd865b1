"""The specification files of an evaluation's children: ``validation.json`` and ``spec.json``."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.evaluation.benchmarks import Benchmark, SplitName
from services.contracts.evaluation.evaluations import declared_metric
from services.contracts.rewards.openai_graders import JudgeModel
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.rollouts.multi_turn import MultiTurn, Tool
from services.contracts.sampling import ChatTemplateKwargs, JsonPrediction, Sampling
from services.core.artifacts import SourceFile
from services.datasets.validate import PromptTemplate, ValidationSpec
from services.evaluator.evaluation.reuse import ReuseSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint

SPEC = "spec.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class EvaluationFile(_Strict):
    """A file to validate, and the grader that must be able to use its golds."""

    file: SourceFile
    grader: EvaluationGrader
    name: str | None = Field(default=None, description="Of the benchmark, if there are several.")
    benchmark: Benchmark | None = None
    split: SplitName | None = None
    template: PromptTemplate | None = None
    system_prompt: str | None = None


class EvaluationFilesSpec(ValidationSpec):
    """The files to validate, by the request field that names each."""

    checked: dict[str, EvaluationFile]
    reuse: ReuseSpec | None = None

    def files(self) -> dict[str, SourceFile]:
        return {param: each.file for param, each in self.checked.items()}


class TrainingFile(_Strict):
    """A file that the model was trained on."""

    id: str
    source: SourceFile


class BenchmarkSpec(_Strict):
    """One benchmark of an evaluation: the samples, how to sample, and how to grade."""

    name: str | None = Field(default=None, description="In its rows, if there are several.")
    samples: Path = Field(description="The file of prompts and golds.")
    grader: EvaluationGrader
    benchmark: Benchmark | None = Field(default=None, description="What the rows are of.")
    split: SplitName | None = Field(default=None, description="Take this part of the rows only.")
    pass_threshold: float = 1.0
    sampling: Sampling
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    system_prompt: str | None = Field(
        default=None, description="Prepended to every conversation without a system prompt."
    )
    keep_reasoning: bool = Field(default=False, description="Grade the reasoning, too.")
    prediction: JsonPrediction | None = Field(default=None, description="Grade JSON alone.")
    judge: JudgeModel | None = Field(default=None, description="Sees what the rule called wrong.")
    max_samples: int | None = Field(default=None, ge=1, description="Take the first rows only.")
    samples_per_item: int = Field(default=1, ge=1)

    @property
    def answer_range(self) -> tuple[int, int] | None:
        """What an answer to the benchmark lies between."""
        return None if self.benchmark is None else self.benchmark.answer_range

    @property
    def lower_is_better(self) -> bool:
        """Whether lower scores of the benchmark are better."""
        return declared_metric(self.benchmark)[1] == "minimize"


class EvaluationSpec(_Strict):
    """One evaluation: the model, and the benchmarks that one engine answers."""

    model: Annotated[LocalModel | RemoteEndpoint, Field(discriminator="type")]
    benchmarks: list[BenchmarkSpec] = Field(min_length=1)
    training: list[TrainingFile] = Field(
        default_factory=list, description="What the items are compared with."
    )
    tools: list[Tool] = Field(default_factory=list, description="What the model may call.")
    multi_turn: MultiTurn | None = Field(default=None, description="Null without tools.")
    max_concurrency: int = Field(default=64, ge=1, le=1024)
