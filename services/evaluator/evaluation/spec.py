"""The specification files of an evaluation's children: ``validation.json`` and ``spec.json``."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.benchmarks import Benchmark
from services.contracts.chat_template import ChatTemplateKwargs
from services.contracts.evaluations import JsonPrediction, Sampling
from services.contracts.multi_turn import MultiTurn, Tool
from services.contracts.rewards import EvaluationGrader
from services.core.artifacts import SourceFile
from services.datasets.validate import ValidationSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint

SPEC = "spec.json"


class EvaluationFileSpec(ValidationSpec):
    """The file to validate, and the grader that must be able to use its golds."""

    file: SourceFile
    grader: EvaluationGrader
    benchmark: Benchmark | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TrainingFile(_Strict):
    """A file that the model was trained on."""

    id: str
    source: SourceFile


class EvaluationSpec(_Strict):
    """One evaluation: the model, the samples, how to sample, and how to grade."""

    model: Annotated[LocalModel | RemoteEndpoint, Field(discriminator="type")]
    samples: Path = Field(description="The file of prompts and golds.")
    grader: EvaluationGrader
    benchmark: Benchmark | None = Field(default=None, description="What the rows are of.")
    training: list[TrainingFile] = Field(
        default_factory=list, description="What the items are compared with."
    )
    pass_threshold: float = 1.0
    sampling: Sampling
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    system_prompt: str | None = Field(
        default=None, description="Prepended to every conversation without a system prompt."
    )
    keep_reasoning: bool = Field(default=False, description="Grade the reasoning, too.")
    prediction: JsonPrediction | None = Field(default=None, description="Grade JSON alone.")
    tools: list[Tool] = Field(default_factory=list, description="What the model may call.")
    multi_turn: MultiTurn | None = Field(default=None, description="Null without tools.")
    max_samples: int | None = Field(default=None, ge=1, description="Take the first rows only.")
    samples_per_item: int = Field(default=1, ge=1)
    max_concurrency: int = Field(default=64, ge=1, le=1024)
