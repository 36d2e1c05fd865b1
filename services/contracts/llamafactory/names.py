"""LLaMA-Factory's names of training stages and of strategies to mix data sets."""

from enum import StrEnum


class Stage(StrEnum):
    """The LLaMA-Factory stage that a method runs."""

    SFT = "sft"  # supervised
    DPO = "dpo"
    KTO = "kto"
    RM = "rm"  # reward_model
    PT = "pt"  # pretraining


MAX_ROWS = 50_000_000
"""Maximum rows of a mixture: a small probability repeats the other datasets many times."""


class MixStrategy(StrEnum):
    """LLaMA-Factory's ``mix_strategy``."""

    CONCAT = "concat"  # one after the other
    UNDER = "interleave_under"  # in turn, until the first is exhausted
    OVER = "interleave_over"  # in turn, until all are; an exhausted one restarts
    ONCE = "interleave_once"  # in turn, every row once
