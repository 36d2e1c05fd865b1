"""Strategies that mix the rows of several files; their meaning is LLaMA-Factory's."""

from enum import StrEnum

MAX_ROWS = 50_000_000
"""Maximum rows of a mixture: a small probability repeats the other datasets many times."""


class MixStrategy(StrEnum):
    """LLaMA-Factory's ``mix_strategy``."""

    CONCAT = "concat"  # one after the other
    UNDER = "interleave_under"  # in turn, until the first is exhausted
    OVER = "interleave_over"  # in turn, until all are; an exhausted one restarts
    ONCE = "interleave_once"  # in turn, every row once
