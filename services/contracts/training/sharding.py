"""How training is sharded over several GPUs."""

from enum import StrEnum


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
