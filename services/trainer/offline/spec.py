"""The specs of offline training's children: ``validation.json`` and ``spec.json``.

Imported by the worker too, so nothing here needs the training runtime.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from services.contracts.llamafactory.names import MixStrategy, Stage
from services.contracts.sampling import ChatTemplateKwargs
from services.contracts.training.fidelity import DEFAULT_LOSSY_SHARE
from services.contracts.training.fine_tuning import Method
from services.contracts.training.offline import AnswerGrader
from services.contracts.training.optimizer import TrainingType
from services.contracts.training.placement import Sharding
from services.contracts.training.rows import DataFormat, RowKind
from services.contracts.validation import AtField
from services.core.artifacts import ModelSource, SourceFile
from services.datasets.validate import ValidationSpec
from services.trainer.offline.scripts import ScriptRun

SPEC = "spec.json"
VALIDATION_DATASET = "validation"


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )


class TrainingFilesSpec(ValidationSpec):
    """The uploaded files to validate; without ``tokenizer_file`` lengths are in characters."""

    uploaded: dict[str, SourceFile]
    rows: RowKind = RowKind.DEMONSTRATION
    data_format: DataFormat = DataFormat.AUTO
    max_seq_length: int = Field(ge=1)
    tokenizer_file: Path | None = None
    method: Method | None = Field(
        default=None,
        description="Settings that render the rows with the chat template beside tokenizer_file, "
        "or name the template that must take them; null: the rows are only read.",
    )
    refuses: bool = Field(
        default=True, description="Whether too many unfaithful rows are an error."
    )
    all_uploaded: bool = Field(default=True, description="Whether no training data are on a hub.")
    scripts: dict[str, ScriptRun] = Field(
        default_factory=dict, description="The runs that generate some of the files, by field."
    )

    def files(self) -> dict[str, SourceFile]:
        return self.uploaded


class DataSource(_Part):
    """Rows to train or validate on: a file, or one split of a hub dataset.

    JSONL, JSON and Parquet are told apart by a file's content. With ``DataFormat.AUTO`` the
    columns of the first row decide the format. ``num_samples`` rows are drawn by the job's seed;
    null: all rows in their order. Errors name the request field ``param`` and the file.
    """

    path: Path | None = None
    hub_name: str | None = None
    hub_subset: str | None = None
    hub_split: str = "train"
    format: DataFormat = DataFormat.AUTO
    num_samples: int | None = Field(default=None, ge=1)
    param: str | None = None
    filename: str | None = None

    @property
    def label(self) -> str:
        """Its name in errors."""
        return self.filename or self.hub_name or str(self.path)

    @model_validator(mode="after")
    def _one_place(self) -> "DataSource":
        if (self.path is None) == (self.hub_name is None):
            raise AtField("path", "give exactly one of path and hub_name")
        return self


class Mixture(_Part):
    """Further training data, and how all data are mixed."""

    sources: list[DataSource] = Field(default_factory=list)
    strategy: MixStrategy = MixStrategy.CONCAT
    probabilities: tuple[float, ...] | None = None


class Lora(_Part):
    """LoRA; ``alpha`` None means twice the rank, ``targets`` None all linear layers."""

    rank: int = Field(default=8, ge=1)
    alpha: int | None = Field(default=None, ge=1)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    targets: list[str] | None = None


class GenerationSpec(_Part):
    """Answers to generate at every evaluation; ``python`` is the interpreter that grades them."""

    max_tokens: int = Field(ge=1)
    grader: AnswerGrader | None = None
    python: Path


class ReferenceSpec(_Part):
    """The reference model of a preference method, and an adapter over it."""

    model: ModelSource
    adapter: Path | None = None


class TrainingSpec(_Part):
    """One training.

    ``stage_arguments`` are the settings of the stage alone, under LLaMA-Factory's names.
    ``reference`` None means the model itself before training. ``batch_size`` counts rows per
    optimizer step over all devices; null leaves it to ``arguments``. ``template`` is a template
    name of LLaMA-Factory's; null trains on exactly what the model's own chat template renders.
    ``arguments`` holds LLaMA-Factory's own names, checked by
    ``services.contracts.llamafactory.arguments``, and wins over the fields beside it. With
    ``resume`` the newest complete checkpoint in the job directory is continued.
    """

    job_id: str
    stage: Stage = Stage.SFT
    stage_arguments: dict[str, JsonValue] = Field(default_factory=dict)
    reference: ReferenceSpec | None = None
    model: ModelSource
    adapter: Path | None = Field(default=None, description="Adapter folder to start from.")
    training_data: DataSource
    mixture: Mixture = Field(default_factory=Mixture)
    validation_data: DataSource | None = None
    validation_sets: dict[str, DataSource] = Field(
        default_factory=dict, description="By name; each is evaluated with its own metrics."
    )
    method: TrainingType
    lora: Lora = Field(default_factory=Lora)
    template: str | None = None
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    n_epochs: float = Field(gt=0)
    batch_size: int | None = Field(default=None, ge=1)
    learning_rate: float = Field(gt=0)
    max_seq_len: int = Field(default=2048, ge=16)
    leaves_out_long: bool = False
    neutralizes: bool = Field(
        default=False, description="Whether special tokens in texts of rows are ordinary text."
    )
    joins_turns: bool = False
    max_lossy_share: float = Field(default=DEFAULT_LOSSY_SHARE, ge=0.0, le=1.0)
    warmup_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    seed: int = Field(default=42, ge=0)
    generation: GenerationSpec | None = None
    sharding: Sharding | None = None
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    resume: bool = True

    @model_validator(mode="after")
    def _adapter_needs_lora(self) -> "TrainingSpec":
        if self.adapter is not None and self.method is not TrainingType.LORA:
            raise AtField("adapter", "an adapter to start from needs method lora")
        return self

    @property
    def runs_model_code(self) -> bool:
        """Whether a model of the training has trusted code; untrusted code was refused earlier."""
        return self.model.trusted or (self.reference is not None and self.reference.model.trusted)

    @property
    def validations(self) -> dict[str, DataSource]:
        """The validation data, by their names as datasets of LLaMA-Factory."""
        if self.validation_data is None:
            return self.validation_sets
        return {VALIDATION_DATASET: self.validation_data, **self.validation_sets}

    @property
    def beside(self) -> dict[str, JsonValue]:
        """The settings beside ``arguments``, under LLaMA-Factory's names."""
        return {
            "finetuning_type": self.method.value,
            "template": self.template,
            "eval_dataset": bool(self.validations),
            "predict_with_generate": self.generation is not None,
            **self.stage_arguments,
        }

    @property
    def rows(self) -> RowKind:
        """The kind of rows that the stage learns from."""
        return _ROWS[self.stage]


_ROWS = {
    Stage.SFT: RowKind.DEMONSTRATION,
    Stage.DPO: RowKind.PREFERENCE,
    Stage.RM: RowKind.PREFERENCE,
    Stage.KTO: RowKind.FEEDBACK,
    Stage.PT: RowKind.TEXT,
}
