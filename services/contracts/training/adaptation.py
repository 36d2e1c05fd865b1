"""Which weights a training changes: all, some layers, or LoRA adapters."""

from enum import StrEnum

from pydantic import Field, StrictInt

from services.contracts.base import Number, Request


class TrainingType(StrEnum):
    """Which weights are trained."""

    FULL = "full"
    LORA = "lora"
    FREEZE = "freeze"  # some layers of the model, the others stay frozen


class LoraSettings(Request):
    """Low-rank adaptation, with LLaMA-Factory's defaults. ``alpha`` defaults to twice the rank;
    null targets: all linear."""

    rank: StrictInt = Field(default=8, ge=1, le=512, description="Rank of the adapter's matrices.")
    alpha: StrictInt | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Scale of the adapter: its output is multiplied by alpha / rank.",
    )
    dropout: Number = Field(
        default=0.0, ge=0.0, lt=1.0, description="Share of inputs that the adapter drops."
    )
    target_modules: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Names of the adapted modules; null: all linear ones.",
    )
