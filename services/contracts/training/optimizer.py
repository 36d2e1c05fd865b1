"""Which weights a training changes, and the optimizer of online training."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from services.contracts.base import Number, Request
from services.contracts.validation import AtField


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
        description="Scale of the adapter: its output is multiplied by alpha / rank; null: twice "
        "the rank.",
    )
    dropout: Number = Field(
        default=0.0, ge=0.0, lt=1.0, description="Probability with which the adapter drops inputs."
    )
    target_modules: list[str] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Names of the adapted modules; null: all linear ones.",
    )


Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]


class OptimizerSettings(Request):
    """AdamW, and memory use."""

    training_type: Literal[TrainingType.FULL, TrainingType.LORA] = Field(
        default=TrainingType.FULL, description="Trained weights: all of them, or an adapter."
    )
    lora: LoraSettings = Field(
        default_factory=LoraSettings, description="Settings of the adapter, for training_type lora."
    )
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = Field(
        default=1e-6, description="Peak learning rate."
    )
    weight_decay: Annotated[Number, Field(ge=0.0)] = Field(
        default=0.01, description="Decoupled weight decay of the optimizer."
    )
    adam_beta1: Fraction = Field(default=0.9, description="Decay of Adam's first moment.")
    adam_beta2: Fraction = Field(default=0.95, description="Decay of Adam's second moment.")
    max_grad_norm: Annotated[Number, Field(gt=0.0)] = Field(
        default=1.0, description="Norm to which gradients are clipped."
    )
    warmup_steps: Annotated[StrictInt, Field(ge=0, le=10**9)] = Field(
        default=0, description="Number of updates over which the learning rate rises."
    )
    micro_batch_tokens: Annotated[StrictInt, Field(ge=1, le=2**24)] | None = Field(
        default=None,
        description="Maximum tokens of one forward pass, including padding; null: what the GPU's "
        "memory allows, at most 16,384.",
    )
    gradient_checkpointing: StrictBool | None = Field(
        default=None,
        description="Whether to recompute activations in the backward pass; null: only where the "
        "GPU's memory requires it.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="Precision of the forward pass; auto: bfloat16 where the GPU supports it.",
    )
    strategy: Literal["ddp", "fsdp", "deepspeed"] = Field(
        default="ddp",
        description="Strategy by which several trainer processes share the model. deepspeed "
        "(ZeRO) clips one gradient norm over policy and critic.",
    )
    offload: StrictBool = Field(
        default=False,
        description="Whether to keep the optimizer's states in host memory: slower steps, 8 bytes "
        "less of GPU memory per trained weight (deepspeed: 14). Not with fsdp.",
    )
    zero_stage: Literal[1, 2, 3] | None = Field(
        default=None,
        description="Stage of ZeRO: 1 shards the optimizer state, 2 also gradients, 3 also "
        "weights; null: 2.",
    )

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if self.zero_stage is not None and self.strategy != "deepspeed":
            raise AtField("zero_stage", "zero_stage requires the strategy deepspeed")
        if self.offload and self.strategy == "fsdp":
            raise AtField("offload", "offload requires the strategy ddp or deepspeed")
        return self
