"""Fine-tuning jobs: OpenAI's fields, with Temper's own inside the hyperparameters."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.adaptation import LoraSettings, TrainingType
from services.contracts.base import JsonObject, Number, Request, Resource
from services.contracts.jobs import JobRequest, JobState
from services.contracts.online import DistillationMethod, PpoMethod, ReinforcementMethod

HUB_DATASET_PREFIX = "hf://datasets/"
"""A ``training_file`` that starts so names a dataset of a hub instead of an uploaded file."""

Auto = Literal["auto"]


class DataFormat(StrEnum):
    """How a row of a training file is laid out."""

    AUTO = "auto"
    CHAT = "chat"
    ALPACA = "alpaca"
    SHAREGPT = "sharegpt"


_PREFERENCE = "supervised training has no use for preferences"
_MEDIA = "only text can be trained on"
_UNUSABLE_COLUMNS = {
    **dict.fromkeys(("images", "image", "videos", "audios"), _MEDIA),
    **dict.fromkeys(("chosen", "rejected", "kto_tag"), _PREFERENCE),
}


def unusable_column(row: Mapping[str, Any]) -> str | None:
    """The column of a training row whose meaning training would lose, and why; None if none."""
    for name in _UNUSABLE_COLUMNS.keys() & row.keys():
        if row[name] not in (None, "", []):
            return f"{name}: {_UNUSABLE_COLUMNS[name]}"
    return "label is false: an answer not to learn" if row.get("label") is False else None


class SupervisedHyperparameters(Request):
    """OpenAI's three names, and Temper's.

    ``learning_rate`` overrides ``learning_rate_multiplier``, which scales the default of the
    training type. ``llamafactory`` holds arguments under LLaMA-Factory's own names.
    """

    n_epochs: Annotated[Number, Field(gt=0, le=1000)] | Auto = "auto"
    batch_size: Annotated[StrictInt, Field(ge=1, le=4096)] | Auto = "auto"
    learning_rate_multiplier: Annotated[Number, Field(gt=0, le=1000)] | Auto = "auto"
    learning_rate: Number | None = Field(default=None, gt=0, le=1)
    training_type: TrainingType = TrainingType.LORA
    lora: LoraSettings = Field(default_factory=LoraSettings)
    max_seq_length: StrictInt = Field(default=2048, ge=16, le=1_048_576)
    warmup_ratio: Number = Field(default=0.0, ge=0.0, le=1.0)
    template: Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,50}$")] | None = Field(
        default=None, description="LLaMA-Factory's template name; null: the model's own."
    )
    data_format: DataFormat = DataFormat.AUTO
    llamafactory: JsonObject = Field(default_factory=dict)


class SupervisedMethod(Request):
    """Supervised fine-tuning on demonstrations."""

    hyperparameters: SupervisedHyperparameters = Field(default_factory=SupervisedHyperparameters)


class MethodType(StrEnum):
    """How a model is trained."""

    SUPERVISED = "supervised"
    REINFORCEMENT = "reinforcement"  # GRPO, DAPO, Dr.GRPO, GSPO
    PPO = "ppo"
    DISTILLATION = "distillation"


class Method(Request):
    """The training method, with its settings under the method's name."""

    type: MethodType = MethodType.SUPERVISED
    supervised: SupervisedMethod | None = None
    reinforcement: ReinforcementMethod | None = None
    ppo: PpoMethod | None = None
    distillation: DistillationMethod | None = None

    @model_validator(mode="after")
    def _settings_of_its_type(self) -> Self:
        if self.type is MethodType.SUPERVISED and self.supervised is None:
            self.supervised = SupervisedMethod()
        for each in MethodType:
            given = getattr(self, each.value) is not None
            if given and each is not self.type:
                raise ValueError(f"has settings of {each.value}, but its type is {self.type.value}")
            if not given and each is self.type:
                raise ValueError(f"type {each.value} needs settings under {each.value}")
        return self

    @property
    def training_type(self) -> TrainingType:
        """Which weights are trained."""
        if self.online is not None:
            return self.online.hyperparameters.optimizer.training_type
        return self.as_supervised.training_type

    @property
    def as_supervised(self) -> SupervisedHyperparameters:
        """The settings of a supervised method; ValueError for another."""
        if self.supervised is None:
            raise ValueError(f"the method is {self.type.value}")
        return self.supervised.hyperparameters

    @property
    def online(self) -> ReinforcementMethod | PpoMethod | DistillationMethod | None:
        """The settings of online training; None for a supervised one."""
        return self.reinforcement or self.ppo or self.distillation


FileReference = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class CreateFineTuningJob(JobRequest):
    """The body of POST /v1/fine_tuning/jobs."""

    model: str = Field(min_length=1, max_length=300, examples=["tiny-base"])
    training_file: FileReference = Field(
        description="A file id, or hf://datasets/<owner>/<name>.", examples=["file-abc123"]
    )
    validation_file: FileReference | None = None
    suffix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    seed: StrictInt | None = Field(default=None, ge=0, le=2**31 - 1)
    method: Method | None = None
    hyperparameters: SupervisedHyperparameters | None = Field(
        default=None, description="OpenAI's older place for method.supervised.hyperparameters."
    )
    integrations: list[Any] | None = Field(default=None, max_length=0)


class FineTuningJob(JobState):
    """A fine-tuning job, as OpenAI shows it, with the finer truth in extra fields."""

    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    fine_tuned_model: str | None = None
    hyperparameters: JsonObject
    method: JsonObject
    model: str
    organization_id: str = "temper"
    result_files: list[str] = Field(default_factory=list)
    seed: int
    trained_tokens: int | None = None
    train_seconds: float | None = None
    training_file: str
    validation_file: str | None = None
    estimated_finish: int | None = None
    integrations: list[Any] | None = None
    suffix: str | None = None


class Checkpoint(Resource):
    """A checkpoint that appeared while a job trained."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    metrics: dict[str, float]
    step_number: int
