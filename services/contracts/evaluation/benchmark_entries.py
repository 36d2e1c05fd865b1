"""One of the benchmarks of an evaluation of several."""

from typing import Annotated

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from services.contracts.base import Number, Request
from services.contracts.chat_template import ChatTemplateKwargs
from services.contracts.evaluation.benchmarks import COMPOSITES, Benchmark, SplitName
from services.contracts.rewards.graders import MetricsVariant
from services.contracts.rewards.openai_graders import JudgeModel
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.sampling import JsonPrediction, Sampling

BenchmarkName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
FileId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EntryName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]


class BenchmarkEntry(Request):
    """One of the benchmarks of an evaluation. Null fields default to the evaluation's."""

    name: EntryName | None = Field(
        default=None,
        description="Name in rows and metrics; null: the name of the benchmark.",
    )
    file: FileId | None = None
    files: dict[BenchmarkName, FileId] | None = Field(
        default=None,
        description="Files by benchmark, in place of `file`, for a name that stands for several "
        "benchmarks.",
    )
    grader: EvaluationGrader | None = None
    benchmark: BenchmarkName | Benchmark | None = None
    metrics: MetricsVariant | None = None
    split: SplitName | None = None
    pass_threshold: Number | None = None
    sampling: Sampling | None = Field(
        default=None, description="Replaces the evaluation's settings one by one."
    )
    chat_template_kwargs: ChatTemplateKwargs | None = None
    system_prompt: str | None = Field(default=None, max_length=100_000)
    keep_reasoning: StrictBool | None = None
    prediction: JsonPrediction | None = None
    judge: JudgeModel | None = None
    max_samples: StrictInt | None = Field(default=None, ge=1)
    samples_per_item: StrictInt | None = Field(default=None, ge=1, le=1024)

    def entries(self) -> list["BenchmarkEntry"]:
        """The benchmarks that this stands for, each with its name and its file.

        Raises `ValueError` where one of them is missing.
        """
        parts = COMPOSITES.get(self.benchmark) if isinstance(self.benchmark, str) else None
        if parts is None:
            name = self.name or (self.benchmark if isinstance(self.benchmark, str) else None)
            if name is None:
                raise ValueError("benchmarks: one that is not a benchmark by name needs a name")
            if self.file is None or self.files is not None:
                raise ValueError(f"benchmarks: {name} needs a file, and no files")
            return [self.model_copy(update={"name": name})]
        files = self.files or {}
        if self.name is not None or self.file is not None or set(files) != set(parts):
            raise ValueError(
                f"benchmarks: {self.benchmark} needs files for {', '.join(parts)}, and no name "
                "and no file"
            )
        return [
            self.model_copy(
                update={"name": part, "benchmark": part, "file": files[part], "files": None}
            )
            for part in parts
        ]
