"""Query files: all distinct, or with repetitions as users' queries have."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.support.corpora.passage import Passage

LEAST_WORDS, MOST_WORDS = 3, 8
ZIPF_EXPONENT = 1.0
POPULAR = 20_000
"""Different queries of the repeating mix; the first is asked for a tenth of the time."""


def write_different(passages: Sequence[Passage], count: int, path: Path) -> None:
    """Write ``count`` distinct queries, each a few consecutive words of a passage."""
    with open(path, "w", encoding="utf-8") as file:
        for text in _different(passages, count):
            file.write(json.dumps(text) + "\n")


def write_repeating(different: Path, count: int, path: Path, seed: int = 0) -> None:
    """Write ``count`` queries drawn from the first of another file, by Zipf's law."""
    lines = different.read_bytes().splitlines()[:POPULAR]
    weights = np.arange(1, len(lines) + 1) ** -ZIPF_EXPONENT
    drawn = np.random.default_rng(seed).choice(len(lines), count, p=weights / weights.sum())
    path.write_bytes(b"".join(lines[number] + b"\n" for number in drawn))


def _different(passages: Sequence[Passage], count: int, seed: int = 0) -> Iterator[str]:
    chance = random.Random(seed)
    given: set[str] = set()
    # Small corpora have fewer: the limit only ends what would not end otherwise.
    for _ in range(20 * count):
        if len(given) == count:
            return
        words = chance.choice(passages).text.split()
        length = chance.randint(LEAST_WORDS, MOST_WORDS)
        start = chance.randrange(max(1, len(words) - length))
        text = " ".join(words[start : start + length])
        if text not in given:
            given.add(text)
            yield text
