"""One of the benchmarks of an evaluation of several."""

from typing import Annotated

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from services.contracts.base import Number, Request
from services.contracts.evaluation.benchmarks import COMPOSITES, Benchmark, SplitName
from services.contracts.rewards.graders import MetricsVariant
from services.contracts.rewards.openai_graders import JudgeModel
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.sampling import ChatTemplateKwargs, JsonPrediction, Sampling
from services.contracts.validation import AtField, given_of

BenchmarkName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
FileId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EntryName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]


class BenchmarkEntry(Request):
    """One of the benchmarks of an evaluation. Null fields default to the evaluation's."""

    name: EntryName | None = Field(
        default=None,
        description="Name of the benchmark in rows and metrics; null: its own name.",
    )
    file: FileId | None = Field(default=None, description="File with the rows of the benchmark.")
    files: dict[BenchmarkName, FileId] | None = Field(
        default=None,
        description="Files by benchmark, in place of `file`, for a name that stands for several "
        "benchmarks.",
    )
    grader: EvaluationGrader | None = Field(
        default=None,
        description="Grader of the answers; null: that of `benchmark`, else the evaluation's.",
    )
    benchmark: BenchmarkName | Benchmark | None = Field(
        default=None, description="Benchmark by name, or one of your own."
    )
    metrics: MetricsVariant | None = Field(
        default=None,
        description="Definition of the metrics of panorama and chemcotbench; null: the "
        "evaluation's.",
    )
    split: SplitName | None = Field(
        default=None, description="Part of the rows to evaluate on; null: the evaluation's."
    )
    pass_threshold: Number | None = Field(
        default=None, description="Score from which an answer is correct; null: the evaluation's."
    )
    sampling: Sampling | None = Field(
        default=None,
        description="Sampling settings that replace those of the evaluation, one by one.",
    )
    chat_template_kwargs: ChatTemplateKwargs | None = Field(
        default=None,
        description="Variables of the model's chat template; null: those of the evaluation.",
    )
    system_prompt: str | None = Field(
        default=None,
        max_length=100_000,
        description="System message of the prompts; null: the evaluation's.",
    )
    keep_reasoning: StrictBool | None = Field(
        default=None, description="Whether graders see the reasoning; null: as the evaluation says."
    )
    prediction: JsonPrediction | None = Field(
        default=None,
        description="Grading of a value in the JSON of an answer; null: the evaluation's.",
    )
    judge: JudgeModel | None = Field(
        default=None,
        description="Judge of aime24, aime25 and benchmarks with answer_range, which grades again "
        "what the rule called wrong; null: none.",
    )
    max_samples: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Maximum number of rows to evaluate on; null: the evaluation's.",
    )
    samples_per_item: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of answers per row; null: the evaluation's.",
    )

    def entries(self) -> list["BenchmarkEntry"]:
        """The benchmarks that this stands for, each with its name and its file.

        Raises `AtField` where one of them is missing.
        """
        parts = COMPOSITES.get(self.benchmark) if isinstance(self.benchmark, str) else None
        if parts is None:
            name = self.name or (self.benchmark if isinstance(self.benchmark, str) else None)
            if name is None:
                raise AtField(
                    "name", "benchmarks: one that is not a benchmark by name needs a name"
                )
            if self.file is None or self.files is not None:
                raise AtField(
                    "file" if self.files is None else "files",
                    f"benchmarks: {name} needs a file, and no files",
                )
            return [self.model_copy(update={"name": name})]
        files = self.files or {}
        if self.name is not None or self.file is not None or set(files) != set(parts):
            unfit = ["files"] if set(files) != set(parts) else []
            raise AtField(
                given_of(self, *unfit, "file", "name"),
                f"benchmarks: {self.benchmark} needs files for {', '.join(parts)}, and no name "
                "and no file",
            )
        return [
            self.model_copy(
                update={"name": part, "benchmark": part, "file": files[part], "files": None}
            )
            for part in parts
        ]
