"""Settings of preference optimization: methods that compare the policy with a reference model."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from services.contracts.base import JsonObject, Number, Request
from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import Stage
from services.contracts.models.registered import ModelId
from services.contracts.training.offline import Auto, OfflineHyperparameters
from services.contracts.training.rows import RowKind
from services.contracts.validation import AtField

DEFAULT_BETA = 0.1

Beta = Annotated[Number, Field(gt=0.0, le=100.0)] | Auto
Weight = Annotated[Number, Field(ge=0.0, le=1000.0)]


class ReferencedHyperparameters(OfflineHyperparameters):
    """Settings of a method that compares the policy with a reference model.

    Without ``reference_model``, the reference is the base model: under LoRA the adapter switched
    off, otherwise a frozen copy. ``sft_weight`` adds the mean negative log-likelihood per token of
    the preferred answers to the loss.
    """

    beta: Beta = Field(
        default="auto", description="Strength of the pull to the reference model (default 0.1)."
    )
    sft_weight: Weight = Field(
        default=0.0, description="Weight of the supervised loss on preferred answers."
    )
    reference_model: ModelId | None = Field(
        default=None,
        description="Registered model to stay near; null: the base model, without an adapter that "
        "is trained further.",
    )

    @property
    def stage_arguments(self) -> JsonObject:
        beta = DEFAULT_BETA if self.beta == "auto" else self.beta
        return {"pref_beta": beta, "pref_ftx": self.sft_weight}

    @property
    def named_reference(self) -> str | None:
        return self.reference_model

    @property
    def has_reference(self) -> bool:
        """Always, but for some losses of DPO's relatives."""
        return True


class PreferenceLoss(StrEnum):
    """How a pair of answers becomes a loss."""

    SIGMOID = "sigmoid"  # DPO
    HINGE = "hinge"  # SLiC
    IPO = "ipo"
    ORPO = "orpo"  # without a reference model
    SIMPO = "simpo"  # without a reference model

    @property
    def has_reference(self) -> bool:
        """Whether the loss compares with a reference model."""
        return self not in {PreferenceLoss.ORPO, PreferenceLoss.SIMPO}


class DpoHyperparameters(ReferencedHyperparameters):
    """Settings of direct preference optimization and its relatives.

    ``label_smoothing`` is the assumed share of swapped pairs; ``simpo_gamma`` is SimPO's margin.
    """

    stage: ClassVar[Stage] = Stage.DPO
    rows: ClassVar[RowKind] = RowKind.PREFERENCE

    loss: PreferenceLoss = Field(
        default=PreferenceLoss.SIGMOID,
        description="Loss of a pair of answers; orpo and simpo have no reference model.",
    )
    label_smoothing: Annotated[Number, Field(ge=0.0, lt=0.5)] = Field(
        default=0.0, description="Share of pairs that are assumed to be labeled wrongly."
    )
    simpo_gamma: Weight | None = Field(default=None, description="Margin in SimPO's loss.")

    @property
    def has_reference(self) -> bool:
        """Whether the loss compares with a reference model."""
        return PreferenceLoss(self.llamafactory.get("pref_loss") or self.loss).has_reference

    def check_library_arguments(
        self, *, has_validation: bool | None, validation_names: Collection[str] = ()
    ) -> None:
        """Check the arguments under LLaMA-Factory's names, whose pref_loss overrides ``loss``.

        Raises `InvalidRequest` for the first that cannot be accepted.
        """
        super().check_library_arguments(
            has_validation=has_validation, validation_names=validation_names
        )
        if self.reference_model is not None and not self.has_reference:
            message = f"pref_loss {self.llamafactory['pref_loss']} has no reference model"
            raise InvalidRequest(message, param="reference_model")

    @model_validator(mode="after")
    def _settings_of_its_loss(self) -> Self:
        if self.label_smoothing and self.loss is not PreferenceLoss.SIGMOID:
            raise AtField("label_smoothing", "label_smoothing has an effect with loss sigmoid only")
        if self.simpo_gamma is not None and self.loss is not PreferenceLoss.SIMPO:
            raise AtField("simpo_gamma", "simpo_gamma has an effect with loss simpo only")
        if self.reference_model is not None and not self.loss.has_reference:
            raise AtField("reference_model", f"loss {self.loss.value} has no reference model")
        return self

    @property
    def stage_arguments(self) -> JsonObject:
        arguments: JsonObject = {
            **super().stage_arguments,
            "pref_loss": self.loss.value,
            "dpo_label_smoothing": self.label_smoothing,
        }
        if self.simpo_gamma is not None:
            arguments["simpo_gamma"] = self.simpo_gamma
        return arguments


class DpoMethod(Request):
    """Direct preference optimization on pairs of answers."""

    hyperparameters: DpoHyperparameters = Field(
        default_factory=DpoHyperparameters,
        description="Hyperparameters of preference optimization.",
    )


class KtoHyperparameters(ReferencedHyperparameters):
    """Settings of Kahneman-Tversky optimization, with the weights of its two kinds of rows."""

    stage: ClassVar[Stage] = Stage.KTO
    rows: ClassVar[RowKind] = RowKind.FEEDBACK

    desirable_weight: Weight = Field(
        default=1.0, description="Weight of desirable answers in the loss."
    )
    undesirable_weight: Weight = Field(
        default=1.0, description="Weight of undesirable answers in the loss."
    )

    def check_library_arguments(
        self, *, has_validation: bool | None, validation_names: Collection[str] = ()
    ) -> None:
        """Check the arguments under LLaMA-Factory's names, whose weights override the method's.

        Raises `InvalidRequest` for the first that cannot be accepted.
        """
        super().check_library_arguments(
            has_validation=has_validation, validation_names=validation_names
        )
        weights = {**self.stage_arguments, **self.llamafactory}
        if not weights["kto_chosen_weight"] and not weights["kto_rejected_weight"]:
            message = "with both weights 0, no row would change the model"
            raise InvalidRequest(message, param="desirable_weight")

    @property
    def stage_arguments(self) -> JsonObject:
        return {
            **super().stage_arguments,
            "kto_chosen_weight": self.desirable_weight,
            "kto_rejected_weight": self.undesirable_weight,
        }


class KtoMethod(Request):
    """Kahneman-Tversky optimization on single judged answers."""

    hyperparameters: KtoHyperparameters = Field(
        default_factory=KtoHyperparameters,
        description="Hyperparameters of training on labeled answers.",
    )
