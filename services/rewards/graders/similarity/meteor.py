"""METEOR with exact words and stems; synonyms, which need a dictionary, count as different."""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise

import Stemmer

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
"""Weight of recall, and shape and size of the penalty for words in another order."""


def meteor(words: Sequence[str], reference: Sequence[str]) -> float:
    """The weighted F of matched words, less what their being scattered costs."""
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
    """Places of words that stand for each other, every word once: first equal words, then those
    with the same stem, from the left."""
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
