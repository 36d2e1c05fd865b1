"""LLaMA-Factory's training stages."""

from enum import StrEnum


class Stage(StrEnum):
    """The LLaMA-Factory stage that a method runs."""

    SFT = "sft"  # supervised
    DPO = "dpo"
    KTO = "kto"
    RM = "rm"  # reward_model
    PT = "pt"  # pretraining
