"""What metrics compare: words in lower case, and their n-grams."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Letters and digits between anything else, in lower case."""
    return _WORD.findall(text.lower())


def ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    """How often each run of ``size`` words occurs."""
    return Counter(zip(*(islice(words, start, None) for start in range(size)), strict=False))


def overlap(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> int:
    """How many n-grams both have, each as often as the one that has it less often."""
    return sum((one & other).values())


def f1(shared: float, one: int, other: int) -> float:
    """The harmonic mean of ``shared / one`` and ``shared / other``; 0 when nothing is shared."""
    return 2 * shared / (one + other) if shared else 0.0
