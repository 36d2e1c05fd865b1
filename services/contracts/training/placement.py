"""How training uses several GPUs: what is sharded over them, and what engine and trainer share."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from services.contracts.base import Number, Request


class Sharding(StrEnum):
    """What is sharded over the GPUs instead of replicated. DeepSpeed's ZeRO (Rajbhandari et al.
    2020, arXiv:1910.02054) shards optimizer state and gradients (2), and weights as well (3);
    PyTorch's FSDP (Zhao et al. 2023, arXiv:2304.11277) all three. With offload, sharded state stays
    in host memory.
    """

    ZERO_2 = "zero2"
    ZERO_2_OFFLOAD = "zero2_offload"
    ZERO_3 = "zero3"
    ZERO_3_OFFLOAD = "zero3_offload"
    FSDP = "fsdp"
    FSDP_OFFLOAD = "fsdp_offload"

    @property
    def splits_weights(self) -> bool:
        """Whether no GPU holds the whole model."""
        return self not in {Sharding.ZERO_2, Sharding.ZERO_2_OFFLOAD}

    @property
    def is_zero(self) -> bool:
        """Whether DeepSpeed implements it."""
        return self not in {Sharding.FSDP, Sharding.FSDP_OFFLOAD}

    @property
    def offloads(self) -> bool:
        """Whether the optimizer is offloaded to host memory."""
        return self in {Sharding.ZERO_2_OFFLOAD, Sharding.ZERO_3_OFFLOAD, Sharding.FSDP_OFFLOAD}


NOT_SHARDED = ("quantization_bit", "pissa_init", "pure_bf16")
"""LLaMA-Factory's arguments that need unsharded weights."""
OWN_SETTINGS = ("deepspeed", "fsdp", "fsdp_config")
"""LLaMA-Factory's arguments that `Sharding` replaces."""


Gpus = Annotated[StrictInt, Field(ge=1, le=65_536)]


class PlacementMode(StrEnum):
    """How engine and trainer share the devices."""

    AUTO = "auto"  # split with two or more GPUs
    COLOCATED = "colocated"  # on the same devices
    SPLIT = "split"  # on separate devices


class OnlinePlacement(Request):
    """How the leased GPUs are shared between sampling and training."""

    mode: PlacementMode = Field(
        default=PlacementMode.AUTO,
        description="Sharing of the GPUs between engine and trainer: colocated, or split.",
    )
    trainer_gpus: Gpus | None = Field(
        default=None,
        description="Number of GPUs of the trainer with `split`; null: half, rounded down.",
    )
    gpus_per_engine: Gpus = Field(
        default=1,
        description="GPUs per engine (tensor parallelism); remaining GPUs form more engines.",
    )
    engine_memory: Annotated[Number, Field(gt=0.0, lt=1.0)] = Field(
        default=0.45, description="Fraction of each GPU's memory that a colocated engine takes."
    )
    sleep: StrictBool = Field(
        default=False, description="Whether a colocated engine releases its memory during updates."
    )

    def splits(self, gpus: int) -> bool:
        """Whether engine and trainer have separate GPUs, of ``gpus``."""
        if self.mode is PlacementMode.AUTO:
            return gpus > 1
        return self.mode is PlacementMode.SPLIT

    def learner_gpus(self, gpus: int) -> int:
        """The GPUs of the learner, of ``gpus``."""
        return (self.trainer_gpus or gpus // 2) if self.splits(gpus) else gpus
