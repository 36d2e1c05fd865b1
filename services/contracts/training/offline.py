"""Settings of offline training, on rows that exist before it starts: one class per method.

Each class names the stage of LLaMA-Factory that runs it and the kind of its rows; docs/training has
the formulas and their sources.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from services.contracts.base import JsonObject, Number, Request
from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.arguments import check_arguments, check_template
from services.contracts.llamafactory.best_checkpoint import (
    GENERATED,
    SCORE,
    check_metric,
    check_times_of_checkpoints,
)
from services.contracts.llamafactory.idle import row_arguments
from services.contracts.llamafactory.names import Stage
from services.contracts.rewards.graders import GoldGrader
from services.contracts.rewards.openai_graders import StringCheckGrader, TextSimilarityGrader
from services.contracts.sampling import ChatTemplateKwargs, ControlTokens
from services.contracts.training.fidelity import DEFAULT_LOSSY_SHARE
from services.contracts.training.optimizer import LoraSettings, TrainingType
from services.contracts.training.placement import NOT_SHARDED, OWN_SETTINGS, Sharding
from services.contracts.training.rows import DataFormat, RowKind
from services.contracts.validation import AtField

Auto = Literal["auto"]

AUTO_EPOCHS = 3.0


class OfflineHyperparameters(Request):
    """OpenAI's three names, and Temper's.

    ``learning_rate`` overrides ``learning_rate_multiplier``, which scales the default of the
    method and training type. ``llamafactory`` holds arguments under LLaMA-Factory's own names.
    """

    stage: ClassVar[Stage]
    rows: ClassVar[RowKind]

    n_epochs: Annotated[Number, Field(gt=0, le=1000)] | Auto = Field(
        default="auto", description="Passes over the training data; auto: 3."
    )
    batch_size: Annotated[StrictInt, Field(ge=1, le=4096)] | Auto = Field(
        default="auto", description="Rows per optimizer step, over all devices."
    )
    learning_rate_multiplier: Annotated[Number, Field(gt=0, le=1000)] | Auto = Field(
        default="auto", description="Factor of the default learning rate."
    )
    learning_rate: Number | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Peak learning rate; null: the default of stage and training type.",
    )
    training_type: TrainingType = Field(
        default=TrainingType.LORA, description="Trained weights: all of them, or an adapter."
    )
    lora: LoraSettings = Field(default_factory=LoraSettings, description="Settings of the adapter.")
    max_seq_length: StrictInt = Field(
        default=2048,
        ge=16,
        le=1_048_576,
        description="Maximum tokens of a row; long_rows says what happens to longer ones.",
    )
    long_rows: Literal["truncate", "leave_out"] = Field(
        default="truncate", description="Treatment of rows longer than max_seq_length."
    )
    join_turns: StrictBool = Field(
        default=False,
        description="Whether consecutive messages of one role become paragraphs of one message.",
    )
    max_lossy_share: Number = Field(
        default=DEFAULT_LOSSY_SHARE,
        ge=0,
        le=1,
        description="Maximum share of rows of which the chat template leaves out words; a file "
        "with more is refused.",
    )
    warmup_ratio: Number = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Share of the steps in which the learning rate rises, below 1.",
    )
    template: Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,50}$")] | None = Field(
        default=None, description="LLaMA-Factory's template name; null: the model's own."
    )
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    control_tokens: ControlTokens = "encode"
    data_format: DataFormat = Field(
        default=DataFormat.AUTO, description="Format of the training file's rows; auto: detected."
    )
    sharding: Sharding | None = Field(
        default=None,
        description="State that several GPUs split instead of copying; null: nothing. With "
        "offload it helps on one GPU too.",
    )
    llamafactory: JsonObject = Field(
        default_factory=dict, description="Further arguments of LLaMA-Factory by name."
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the arguments that affect rows, for forms; all others are accepted as well."""
        schema = handler(core)
        arguments = handler.resolve_ref_schema(schema)["properties"]["llamafactory"]
        arguments["properties"] = row_arguments(cls.stage)
        return schema

    @property
    def stage_arguments(self) -> JsonObject:
        """The settings that belong to the method alone, under LLaMA-Factory's names."""
        return {}

    @property
    def named_reference(self) -> str | None:
        """The registered model that answers are compared with, if one is named."""
        return None

    @property
    def has_reference(self) -> bool:
        """Whether answers are compared with a reference model, named or not."""
        return False

    @property
    def generated_metrics(self) -> tuple[str, ...]:
        """The metrics of answers that are generated at every evaluation."""
        return ()

    def check_library_arguments(
        self, *, has_validation: bool | None, validation_names: Collection[str] = ()
    ) -> None:
        """Check the arguments under LLaMA-Factory's names and the template; raise
        `InvalidRequest` for the first that cannot be accepted.

        ``validation_names`` are of validation files with metrics of their own. With
        ``has_validation`` None it does not matter whether there are any.
        """
        beside = {
            "finetuning_type": self.training_type.value,
            "template": self.template,
            "eval_dataset": has_validation is not False,
            "predict_with_generate": bool(self.generated_metrics),
            **self.stage_arguments,
        }
        check_arguments(self.llamafactory, self.stage, beside=beside)
        if self.training_type is not TrainingType.LORA and self.lora != LoraSettings():
            message = f"lora has an effect with training_type lora, not with {self.training_type}"
            raise InvalidRequest(message, param="lora")
        check_metric(self.llamafactory, self.stage, self.generated_metrics, validation_names)
        check_times_of_checkpoints(self.llamafactory)
        self.check_warmup()
        if has_validation and self.llamafactory.get("val_size"):
            message = (
                "val_size holds rows out of the training data: give no validation file beside it"
            )
            raise InvalidRequest(message, param="llamafactory.val_size")
        if self.template is not None:
            check_template(self.template)
            if self.long_rows != "truncate":
                message = "leave_out has an effect with the model's own template only"
                raise InvalidRequest(message, param="long_rows")
            if self.control_tokens != "encode":
                message = "neutralize has an effect with the model's own template only"
                raise InvalidRequest(message, param="control_tokens")
        self._check_pissa()
        self._check_sharding()

    def check_warmup(self) -> None:
        """Raise `InvalidRequest` for a warmup that is given twice, as shares or as a share and a
        number of steps, and for a share of 1, which transformers takes for one step. Stored
        requests may have any of these."""
        if self.warmup_ratio >= 1:
            raise InvalidRequest("warmup_ratio must be below 1", param="warmup_ratio")
        among = self.llamafactory.get("warmup_ratio")
        if self.warmup_ratio and among is not None:
            message = "warmup_ratio is given twice; leave out the one under llamafactory"
            raise InvalidRequest(message, param="llamafactory.warmup_ratio")
        is_share = self.warmup_ratio or among
        if is_share and self.llamafactory.get("warmup_steps") is not None:
            message = "warmup_ratio and warmup_steps exclude each other"
            raise InvalidRequest(message, param="llamafactory.warmup_steps")

    def _check_pissa(self) -> None:
        """PiSSA changes the base, which a reference needs unchanged, and cannot change quantized
        weights."""
        if not self.llamafactory.get("pissa_init"):
            return
        beside = "a reference model" if self.has_reference else "quantization_bit"
        if self.has_reference or self.llamafactory.get("quantization_bit"):
            message = f"pissa_init cannot be used with {beside}"
            raise InvalidRequest(message, param="llamafactory.pissa_init")

    def _check_sharding(self) -> None:
        if self.sharding is None:
            return
        refused = [*OWN_SETTINGS, *(NOT_SHARDED if self.sharding.splits_weights else ())]
        for name in refused:
            if self.llamafactory.get(name):
                message = f"{self.sharding.value} cannot be used with {name}"
                raise InvalidRequest(message, param="sharding")
        if self.stage is Stage.RM and not self.sharding.is_zero:
            message = f"{self.sharding.value} does not save a value head: use zero2 or zero3"
            raise InvalidRequest(message, param="sharding")
        if self.sharding.splits_weights and self.generated_metrics:
            message = f"answers cannot be generated under {self.sharding.value}"
            raise InvalidRequest(message, param="sharding")

    @model_validator(mode="after")
    def _variables_of_a_chat_template(self) -> Self:
        if self.chat_template_kwargs and self.template is not None:
            raise AtField(
                "chat_template_kwargs",
                "chat_template_kwargs are for the model's own template, not template",
            )
        if self.chat_template_kwargs and self.rows is RowKind.TEXT:
            raise AtField(
                "chat_template_kwargs", "chat_template_kwargs have no effect: text is read as it is"
            )
        return self

    @model_validator(mode="after")
    def _format_of_its_rows(self) -> Self:
        is_text = self.data_format is DataFormat.TEXT
        if self.data_format is not DataFormat.AUTO and is_text != (self.rows is RowKind.TEXT):
            raise AtField(
                "data_format", f"data_format {self.data_format.value} has no {self.rows.value} rows"
            )
        return self


AnswerGrader = Annotated[
    GoldGrader | StringCheckGrader | TextSimilarityGrader, Field(discriminator="type")
]
"""A grader that needs neither a model nor a service."""


class GenerationSettings(Request):
    """Answers to the validation file's prompts, generated at every evaluation.

    They are compared with the file's own answers, which graders find as gold and as
    ``{{ item.reference }}``. Arguments such as ``do_sample`` and ``temperature`` are given under
    ``llamafactory``; without them the answers are greedy.
    """

    max_tokens: StrictInt = Field(
        default=512, ge=1, le=131_072, description="Maximum tokens of an answer."
    )
    grader: AnswerGrader | None = Field(
        default=None,
        description="Grader whose mean score over the answers is the metric eval_score.",
    )


class SupervisedHyperparameters(OfflineHyperparameters):
    """Settings of supervised fine-tuning."""

    stage: ClassVar[Stage] = Stage.SFT
    rows: ClassVar[RowKind] = RowKind.DEMONSTRATION

    generation: GenerationSettings | None = Field(
        default=None,
        description="Sampling and grading of answers to the validation file; null: none.",
    )

    def check_library_arguments(
        self, *, has_validation: bool | None, validation_names: Collection[str] = ()
    ) -> None:
        """Check the arguments under LLaMA-Factory's names, the template and the generation; raise
        `InvalidRequest` for the first that cannot be accepted."""
        super().check_library_arguments(
            has_validation=has_validation, validation_names=validation_names
        )
        if self.generation is None:
            return
        if has_validation is False and not self.llamafactory.get("val_size"):
            raise InvalidRequest("generation needs a validation file", param="generation")
        for name in ("packing", "neat_packing", "train_on_prompt", "fsdp"):
            if self.llamafactory.get(name):
                raise InvalidRequest(f"generation cannot be used with {name}", param="generation")

    @property
    def generated_metrics(self) -> tuple[str, ...]:
        if self.generation is None:
            return ()
        return (*GENERATED, SCORE) if self.generation.grader else GENERATED


class SupervisedMethod(Request):
    """Supervised fine-tuning on demonstrations."""

    hyperparameters: SupervisedHyperparameters = Field(
        default_factory=SupervisedHyperparameters,
        description="Hyperparameters of supervised fine-tuning.",
    )


class RewardModelHyperparameters(OfflineHyperparameters):
    """Settings of training a reward model."""

    stage: ClassVar[Stage] = Stage.RM
    rows: ClassVar[RowKind] = RowKind.PREFERENCE


class RewardModelMethod(Request):
    """A reward model that scores preferred answers higher."""

    hyperparameters: RewardModelHyperparameters = Field(
        default_factory=RewardModelHyperparameters,
        description="Hyperparameters of training a reward model.",
    )


class PretrainingHyperparameters(OfflineHyperparameters):
    """Settings of continued pre-training, which has no template."""

    stage: ClassVar[Stage] = Stage.PT
    rows: ClassVar[RowKind] = RowKind.TEXT

    template: None = Field(
        default=None,
        description="Template name; always null, since text is read without a template.",
    )


class PretrainingMethod(Request):
    """Continued pre-training on text."""

    hyperparameters: PretrainingHyperparameters = Field(
        default_factory=PretrainingHyperparameters,
        description="Hyperparameters of training on plain text.",
    )
