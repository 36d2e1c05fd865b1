"""BLEU of single sentences, and Google's variant."""

import math
from collections.abc import Sequence

from services.rewards.graders.similarity.words import ngrams, overlap

LONGEST = 4
"""Words of an n-gram."""


def bleu(words: Sequence[str], reference: Sequence[str]) -> float:
    """Geometric mean of the precisions of 1- to 4-grams, times the brevity penalty.

    Sizes that the text is too short for are left out. The k-th precision that is 0 counts as
    1 / 2^k n-grams (smoothing of NIST), unless not even a word is shared.
    """
    if not overlap(ngrams(words, 1), ngrams(reference, 1)):
        return 0.0
    logarithms: list[float] = []
    smoothing = 1.0
    for size in range(1, min(LONGEST, len(words)) + 1):
        total = len(words) - size + 1
        shared: float = overlap(ngrams(words, size), ngrams(reference, size))
        if not shared:
            smoothing /= 2
            shared = smoothing
        logarithms.append(math.log(shared / total))
    brevity = min(0.0, 1 - len(reference) / len(words))
    return math.exp(sum(logarithms) / len(logarithms) + brevity)


def gleu(words: Sequence[str], reference: Sequence[str]) -> float:
    """The smaller of precision and recall of all 1- to 4-grams together."""
    shared = total = wanted = 0
    for size in range(1, LONGEST + 1):
        mine, theirs = ngrams(words, size), ngrams(reference, size)
        shared += overlap(mine, theirs)
        total += mine.total()
        wanted += theirs.total()
    return shared / max(total, wanted) if shared else 0.0
