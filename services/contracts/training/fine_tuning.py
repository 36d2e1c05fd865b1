"""Fine-tuning jobs: OpenAI's fields, with Temper's own inside the hyperparameters."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.base import JsonObject, Number, Request, Resource
from services.contracts.jobs import JobRequest, JobState
from services.contracts.llamafactory.names import MAX_ROWS, MixStrategy, Stage
from services.contracts.models.registered import Suffix
from services.contracts.training.integrations import Integration
from services.contracts.training.methods import MethodType
from services.contracts.training.offline import (
    OfflineHyperparameters,
    PretrainingMethod,
    RewardModelMethod,
    SupervisedHyperparameters,
    SupervisedMethod,
)
from services.contracts.training.online import DistillationMethod, PpoMethod, ReinforcementMethod
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.preference_optimization import DpoMethod, KtoMethod
from services.contracts.validation import AtField

TRAINING_DATASET = "training"
"""The name of the training data, next to those of validation files."""


class Method(Request):
    """The training method, with its settings under the method's name."""

    type: MethodType = Field(
        default=MethodType.SUPERVISED, description="Name of the training method."
    )
    supervised: SupervisedMethod | None = Field(
        default=None, description="Settings of supervised fine-tuning, for type supervised."
    )
    dpo: DpoMethod | None = Field(
        default=None, description="Settings of preference optimization, for type dpo."
    )
    kto: KtoMethod | None = Field(
        default=None, description="Settings of training on labeled answers, for type kto."
    )
    reward_model: RewardModelMethod | None = Field(
        default=None, description="Settings of training a reward model, for type reward_model."
    )
    pretraining: PretrainingMethod | None = Field(
        default=None, description="Settings of training on plain text, for type pretraining."
    )
    reinforcement: ReinforcementMethod | None = Field(
        default=None, description="Settings of reinforcement learning, for type reinforcement."
    )
    ppo: PpoMethod | None = Field(
        default=None, description="Settings of reinforcement learning with a critic, for type ppo."
    )
    distillation: DistillationMethod | None = Field(
        default=None, description="Settings of distillation from a teacher, for type distillation."
    )

    @model_validator(mode="after")
    def _settings_of_its_type(self) -> Self:
        if self.type in _OFFLINE and getattr(self, self.type.value) is None:
            setattr(self, self.type.value, _OFFLINE[self.type]())
        for each in MethodType:
            given = getattr(self, each.value) is not None
            if given and each is not self.type:
                raise AtField(
                    each.value, f"has settings of {each.value}, but its type is {self.type.value}"
                )
            if not given and each is self.type:
                raise AtField(each.value, f"type {each.value} needs settings under {each.value}")
        return self

    @classmethod
    def of(cls, hyperparameters: OfflineHyperparameters) -> Self:
        """The offline method that has these settings."""
        name = _METHOD_OF[hyperparameters.stage].value
        return cls.model_validate({"type": name, name: {"hyperparameters": hyperparameters}})

    def resolved(self) -> JsonObject:
        """The type and all settings of the method as JSON, from which the same method is read.

        Nulls of settings are kept: they count more than what a recipe or a default fills in.
        """
        return self.model_dump(mode="json", include={"type", self.type.value})

    @property
    def training_type(self) -> TrainingType:
        """Which weights are trained."""
        if self.online is not None:
            return self.online.hyperparameters.optimizer.training_type
        return self.as_offline.training_type

    @property
    def as_offline(self) -> OfflineHyperparameters:
        """The settings of an offline method; ValueError for an online one."""
        if self.offline is None:
            raise ValueError(f"the method is {self.type.value}")
        return self.offline

    @property
    def offline(self) -> OfflineHyperparameters | None:
        """The settings of offline training; None for an online method."""
        method = self.supervised or self.dpo or self.kto or self.reward_model or self.pretraining
        return None if method is None else method.hyperparameters

    @property
    def online(self) -> ReinforcementMethod | PpoMethod | DistillationMethod | None:
        """The settings of online training; None for an offline method."""
        return self.reinforcement or self.ppo or self.distillation


_OFFLINE: dict[
    MethodType,
    type[SupervisedMethod | DpoMethod | KtoMethod | RewardModelMethod | PretrainingMethod],
] = {
    MethodType.SUPERVISED: SupervisedMethod,
    MethodType.DPO: DpoMethod,
    MethodType.KTO: KtoMethod,
    MethodType.REWARD_MODEL: RewardModelMethod,
    MethodType.PRETRAINING: PretrainingMethod,
}
"""Methods that need no settings."""
_METHOD_OF = {
    Stage.SFT: MethodType.SUPERVISED,
    Stage.DPO: MethodType.DPO,
    Stage.KTO: MethodType.KTO,
    Stage.RM: MethodType.REWARD_MODEL,
    Stage.PT: MethodType.PRETRAINING,
}

FileReference = Annotated[str, StringConstraints(min_length=1, max_length=300)]


ValidationName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
MAX_FILES = 32


class MixedFile(Request):
    """One of several training files; ``num_samples`` of its rows are drawn by the job's seed."""

    file: FileReference = Field(
        description="Training file: a file id, or hf://datasets/<owner>/<name>."
    )
    num_samples: StrictInt | None = Field(
        default=None,
        ge=1,
        le=MAX_ROWS,
        description="Number of rows to draw: each once, and again when the file has fewer; null: "
        "all rows, in order.",
    )


class MixingSettings(Request):
    """How the rows of several training files are mixed."""

    strategy: MixStrategy = Field(
        default=MixStrategy.CONCAT,
        description="Strategy by which rows of several files become one order.",
    )
    probabilities: list[Annotated[Number, Field(gt=0.0, lt=1.0)]] | None = Field(
        default=None,
        description="Probabilities with which rows are drawn from the files, instead of in turn; "
        "their sum is 1.",
    )

    @model_validator(mode="after")
    def _probabilities_of_an_interleaving(self) -> Self:
        if self.probabilities is None:
            return self
        if self.strategy is MixStrategy.CONCAT:
            raise AtField("probabilities", "probabilities have no effect with strategy concat")
        if abs(sum(self.probabilities) - 1) > 1e-6:
            raise AtField("probabilities", "the sum of probabilities must be 1")
        return self


class CreateFineTuningJob(JobRequest):
    """The body of POST /v1/fine_tuning/jobs.

    ``training_files`` are mixed; ``training_file`` is the first of them and may then be omitted.
    Each of ``validation_files`` is evaluated, with metrics under its name.
    """

    FILE_FIELDS: ClassVar[tuple[str, ...]] = (
        "training_files.*.file",
        "training_file",
        "validation_file",
        "validation_files.*",
    )

    model: str = Field(
        min_length=1,
        max_length=300,
        examples=["tiny-base"],
        description="Registered model to fine-tune.",
    )
    training_file: FileReference = Field(
        description="Training file: a file id, or hf://datasets/<owner>/<name>.",
        examples=["file-abc123"],
    )
    training_files: list[MixedFile] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_FILES,
        description="Files to train on, in place of training_file, with their mixing.",
    )
    mixing: MixingSettings | None = Field(
        default=None, description="Mixing of several training_files; null: one after the other."
    )
    validation_file: FileReference | None = Field(
        default=None, description="File that the model is evaluated on at intervals."
    )
    validation_files: dict[ValidationName, FileReference] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_FILES,
        description="Files that the model is evaluated on at intervals.",
    )
    suffix: Suffix | None = Field(default=None, description="Suffix in the tuned model's name.")
    seed: StrictInt | None = Field(
        default=None, ge=0, le=2**31 - 1, description="Seed of the training; null: a random one."
    )
    method: Method | None = Field(
        default=None, description="Training method and its settings; null: supervised fine-tuning."
    )
    hyperparameters: SupervisedHyperparameters | None = Field(
        default=None, description="OpenAI's older place for method.supervised.hyperparameters."
    )
    integrations: list[Integration] | None = Field(
        default=None,
        max_length=1,
        description="Experiment trackers of the job: W&B, with the operator's key.",
    )

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, body: Any) -> Any:
        """Set ``training_file`` in a body that has only ``training_files``."""
        if not isinstance(body, dict) or "training_file" in body:
            return body
        match body.get("training_files"):
            case [{"file": first}, *_] | [MixedFile(file=first), *_]:
                return {**body, "training_file": first}
        return body

    @model_validator(mode="after")
    def _consistent_files(self) -> Self:
        files = self.training_files or []
        if files and self.training_file != files[0].file:
            raise AtField("training_file", "training_file must be the first of training_files")
        if self.mixing is not None and len(files) < 2:
            raise AtField("mixing", "mixing has an effect with two or more training_files only")
        if self.mixing is not None and self.mixing.probabilities is not None:
            given = len(self.mixing.probabilities)
            if given != len(files):
                raise AtField(
                    ("mixing", "probabilities"),
                    f"mixing has {given} probabilities for {len(files)} files",
                )
        if self.validation_files is not None and self.validation_file is not None:
            raise AtField("validation_file", "give validation_file or validation_files, not both")
        if TRAINING_DATASET in (self.validation_files or {}):
            raise AtField(
                ("validation_files", TRAINING_DATASET),
                f"a validation file cannot be named {TRAINING_DATASET}",
            )
        return self

    @property
    def has_validation(self) -> bool:
        """Whether the job has validation files."""
        return self.validation_file is not None or self.validation_files is not None

    @property
    def file_references(self) -> dict[str, str]:
        """Every file of the job, by the field that names it, as ``training_files.0.file``."""
        references = {}
        if self.training_files is None:
            references["training_file"] = self.training_file
        for number, part in enumerate(self.training_files or []):
            references[f"training_files.{number}.file"] = part.file
        if self.validation_file is not None:
            references["validation_file"] = self.validation_file
        for name, file in (self.validation_files or {}).items():
            references[f"validation_files.{name}"] = file
        return references

    def with_file_references(self, ids: Mapping[str, str]) -> Self:
        """The request with some of its `file_references` replaced, by field."""
        files = {**self.file_references, **ids}
        several = [
            part.model_copy(update={"file": files[f"training_files.{number}.file"]})
            for number, part in enumerate(self.training_files or [])
        ]
        named = {name: files[f"validation_files.{name}"] for name in self.validation_files or {}}
        return self.model_copy(
            update={
                "training_file": several[0].file if several else files["training_file"],
                "training_files": several or None,
                "validation_file": files.get("validation_file"),
                "validation_files": named or None,
            }
        )


class MemoryEstimate(Resource):
    """What training needs on each GPU, in gigabytes of 1e9 bytes.

    ``needed_gb`` is 1.05 times ``base_gb`` (weights, gradients, optimizer) plus ``activations_gb``.
    It ``fits`` up to nine tenths of ``card_gb``, the largest GPU when the job was created; an
    online method's learner beside a colocated engine, up to what the engine leaves.
    """

    parameters: int = Field(description="Number of parameters of the model.")
    trained_parameters: int = Field(description="Number of parameters that are trained.")
    base_gb: float = Field(
        description="Memory of weights, gradients and optimizer on each GPU, in GB (1e9 bytes)."
    )
    activations_gb: float = Field(
        description="Memory of activations on each GPU, in GB (1e9 bytes)."
    )
    needed_gb: float = Field(
        description="Needed memory of each GPU, with a reserve, in GB (1e9 bytes)."
    )
    card_gb: float | None = Field(
        default=None,
        description="Memory of the largest GPU when the job was created, in GB (1e9 bytes); null: "
        "unknown.",
    )
    fits: bool | None = Field(
        default=None, description="Whether the job fits on that GPU; null: unknown."
    )


class FineTuningForecast(Resource):
    """What a fine-tune would need, as far as is known before it is created."""

    object: Literal["fine_tuning.forecast"] = "fine_tuning.forecast"
    method: str = Field(description="Name of the training method.")
    settings: JsonObject = Field(
        default_factory=dict,
        description="The method's rewards and hyperparameters as the job would have them: with "
        "those of its recipe, and defaults.",
    )
    problem: str | None = Field(
        default=None, description="Reason why the request would be refused."
    )
    memory_estimate: MemoryEstimate | None = Field(
        default=None,
        description="Memory that the job needs; null on CPU slots, where the request has a "
        "problem, and for a model that is not here yet or of an unknown family.",
    )
    seconds: float | None = Field(
        default=None,
        description="Training time by that of an earlier job with the same model and method, in "
        "proportion to the bytes of the training files and to epochs, or to steps. With "
        "max_steps, max_samples, val_size or num_samples it must have had the same files and "
        "settings of rows; null without one.",
    )
    based_on: str | None = Field(
        default=None,
        description="Id of the earlier job that `seconds` is based on; null without one.",
    )
    queued_jobs: int = Field(default=0, description="Fine-tunes that wait for devices already.")


class FineTuningJob(JobState):
    """A fine-tuning job in OpenAI's shape, with Temper's details in extra fields."""

    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    fine_tuned_model: str | None = Field(
        default=None, description="Name of the tuned model; null until the job has succeeded."
    )
    hyperparameters: JsonObject = Field(
        description="Values of n_epochs, batch_size and learning_rate_multiplier, in OpenAI's "
        "older place: auto where none was given, null for online methods."
    )
    method: JsonObject = Field(description="Training method and its resolved settings.")
    model: str = Field(description="Registered model that is fine-tuned.")
    organization_id: str = Field(
        default="temper", description="Organization of OpenAI's format; always temper."
    )
    result_files: list[str] = Field(
        default_factory=list,
        description="Ids of the result files; empty until the job has succeeded.",
    )
    seed: int = Field(description="Seed of the training.")
    trained_tokens: int | None = Field(
        default=None,
        description="Number of tokens trained on: of an offline method all of its sequences, in "
        "each epoch; of an online one those with a loss, once per step; null until the job has a "
        "result.",
    )
    training_rows: int | None = Field(
        default=None,
        description="Number of rows that an epoch of an offline method trains on, those that a "
        "mixture repeats as often; null until the job has a result, and for online methods.",
    )
    validation_rows: int | None = Field(
        default=None,
        description="Number of rows that an offline method is evaluated on: those of validation "
        "files, or the distinct ones held out by val_size; null until the job has a result, and "
        "for online methods.",
    )
    train_seconds: float | None = Field(
        default=None,
        description="Seconds of the steps and evaluations, rollouts included, over all attempts "
        "of a job; null until the job has a result.",
    )
    training_file: str = Field(description="Training file, or the first of several.")
    training_files: list[MixedFile] | None = Field(
        default=None, description="Training files that are mixed; null: one file."
    )
    mixing: MixingSettings | None = Field(
        default=None,
        description="Mixing of several training files; null: one file, or one after the other.",
    )
    validation_file: str | None = Field(
        default=None, description="File that the model is evaluated on at intervals; null: none."
    )
    validation_files: dict[str, str] | None = Field(
        default=None,
        description="Files that the model is evaluated on at intervals, by name; null: none, or "
        "one.",
    )
    estimated_finish: int | None = Field(
        default=None,
        description="Estimated time of the end, in Unix seconds; null while no rate is known, and "
        "while the job does not run.",
    )
    memory_estimate: MemoryEstimate | None = Field(
        default=None,
        description="Estimated memory of the training on GPUs, from the model's config.json; null: "
        "unknown.",
    )
    integrations: list[Integration] | None = Field(
        default=None, description="Experiment trackers of the job."
    )
    suffix: str | None = Field(default=None, description="Suffix in the tuned model's name.")


class Checkpoint(Resource):
    """A checkpoint saved during training."""

    id: str = Field(description="Id of the checkpoint.")
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int = Field(description="Time at which the checkpoint was saved, in Unix seconds.")
    fine_tuned_model_checkpoint: str = Field(
        description="Name under which the checkpoint can be used as a model."
    )
    fine_tuning_job_id: str = Field(description="Id of the fine-tuning job.")
    metrics: dict[str, float] = Field(
        description="Latest values of the metrics at the step, in OpenAI's names where they exist."
    )
    step_number: int = Field(description="Number of the training step.")
