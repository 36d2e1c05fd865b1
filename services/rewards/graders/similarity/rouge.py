"""ROUGE: the F1 of shared n-grams, or of the longest common subsequence."""

from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from services.rewards.graders.similarity.words import f1, ngrams, overlap


def rouge_n(words: Sequence[str], reference: Sequence[str], size: int) -> float:
    """F1 of n-grams of ``size`` words."""
    mine, theirs = ngrams(words, size), ngrams(reference, size)
    return f1(overlap(mine, theirs), mine.total(), theirs.total())


def rouge_l(words: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest sequence of words that both have in the same order."""
    return f1(LCSseq.similarity(words, reference), len(words), len(reference))
