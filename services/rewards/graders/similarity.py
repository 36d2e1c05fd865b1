"""Similarity metrics over words: BLEU, GLEU, METEOR and ROUGE."""

import math
import re
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from itertools import islice, pairwise

import Stemmer
from rapidfuzz.distance import LCSseq

MAX_NGRAM = 4
"""Maximum n-gram size."""


def bleu(words: Sequence[str], reference: Sequence[str]) -> float:
    """Geometric mean of the precisions of 1- to 4-grams, times the brevity penalty.

    Sizes that the text is too short for are left out. The k-th precision that is 0 counts as
    1 / 2^k n-grams (smoothing of NIST), unless not even a word is shared.
    """
    if not overlap(ngrams(words, 1), ngrams(reference, 1)):
        return 0.0
    logarithms: list[float] = []
    smoothing = 1.0
    for size in range(1, min(MAX_NGRAM, len(words)) + 1):
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
    for size in range(1, MAX_NGRAM + 1):
        mine, theirs = ngrams(words, size), ngrams(reference, size)
        shared += overlap(mine, theirs)
        total += mine.total()
        wanted += theirs.total()
    return shared / max(total, wanted) if shared else 0.0


ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
"""Weight of recall, and shape and size of the penalty for words in another order."""


def meteor(words: Sequence[str], reference: Sequence[str]) -> float:
    """The weighted F of matched words, less the fragmentation penalty."""
    pairs = _matches(words, reference)
    if not pairs:
        return 0.0
    precision, recall = len(pairs) / len(words), len(pairs) / len(reference)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    chunks = 1 + sum(
        (after[0] - before[0], after[1] - before[1]) != (1, 1) for before, after in pairwise(pairs)
    )
    penalty: float = GAMMA * (chunks / len(pairs)) ** BETA
    return mean * (1 - penalty)


def _matches(words: Sequence[str], reference: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of aligned words, each word once: first equal words, then those with the same stem,
    from the left."""
    stemmer = Stemmer.Stemmer("porter")
    pairs = _match(dict(enumerate(words)), dict(enumerate(reference)))
    used, used_there = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    stems = {i: stemmer.stemWord(word) for i, word in enumerate(words) if i not in used}
    their_stems = {
        i: stemmer.stemWord(word) for i, word in enumerate(reference) if i not in used_there
    }
    return sorted(pairs + _match(stems, their_stems))


def _match(words: dict[int, str], reference: dict[int, str]) -> list[tuple[int, int]]:
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, word in reference.items():
        places[word].append(place)
    return [(place, places[word].popleft()) for place, word in words.items() if places.get(word)]


def rouge_n(words: Sequence[str], reference: Sequence[str], size: int) -> float:
    """F1 of n-grams of ``size`` words."""
    mine, theirs = ngrams(words, size), ngrams(reference, size)
    return f1(overlap(mine, theirs), mine.total(), theirs.total())


def rouge_l(words: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words."""
    return f1(LCSseq.similarity(words, reference), len(words), len(reference))


_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, in lower case."""
    return _WORD.findall(text.lower())


def ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    """Counts of all n-grams of ``size`` words."""
    return Counter(zip(*(islice(words, start, None) for start in range(size)), strict=False))


def overlap(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> int:
    """The number of n-grams that both have, with multiplicity."""
    return sum((one & other).values())


def f1(shared: float, one: int, other: int) -> float:
    """The harmonic mean of ``shared / one`` and ``shared / other``; 0 when nothing is shared."""
    return 2 * shared / (one + other) if shared else 0.0
