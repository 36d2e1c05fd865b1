"""LLaMA-Factory's training stages."""

from enum import StrEnum


class Stage(StrEnum):
    """A stage of LLaMA-Factory's that a method runs."""

    SFT = "sft"  # supervised
    DPO = "dpo"
    KTO = "kto"
    RM = "rm"  # reward_model
    PT = "pt"  # pretraining
