"""Synthetic passages in any number, with realistic word frequencies.

Words follow the Zipf-Mandelbrot law of English text, lengths of passages are log-normal, and each
passage repeats words of its own subject, so that searches have the lists to go through that they
have in a real corpus. A passage depends on its number alone: any part can be made by itself.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from tests.support.corpora.passage import Passage

VOCABULARY = 400_000
EXPONENT, SHIFT = 1.05, 2.7
MEDIAN_WORDS = 70
SUBJECT_WORDS, SUBJECT_SHARE = 12, 0.25
CHUNK = 1024
"""Passages that are drawn together."""
ASKED = 512
"""Questions about the passages of one chunk."""

_ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "f",
    "g",
    "gr",
    "h",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "v",
)
_RIMES = ("a", "e", "i", "o", "u", "an", "ar", "el", "en", "er", "in", "is", "on", "or", "um", "us")


def passages(count: int, start: int = 0) -> Iterator[Passage]:
    """The passages ``start`` to ``start + count``, without headings."""
    for number, text in texts(count, start):
        yield Passage(
            id=f"synthetic/{number}",
            title=f"Passage {number}",
            text=text,
            metadata={"source": "synthetic", "number": number, "group": number % 100},
        )


def texts(count: int, start: int = 0) -> Iterator[tuple[int, str]]:
    """The texts alone, with their numbers."""
    stop = start + count
    for chunk in range(start // CHUNK, -(-stop // CHUNK)):
        for number, text in enumerate(_chunk(chunk), chunk * CHUNK):
            if start <= number < stop:
                yield number, text


def questions(count: int, of: int, seed: int = 0) -> list[str]:
    """Different queries of 3 to 8 words that occur together in one of the first ``of`` passages."""
    random = np.random.default_rng([seed, of])
    numbers = random.integers(0, -(-of // CHUNK), size=-(-count // ASKED))
    found: dict[str, None] = {}
    for chunk in numbers.tolist():
        candidates = _chunk(chunk)
        for place in random.integers(0, len(candidates), size=ASKED + ASKED // 2).tolist():
            words = candidates[place].split()
            length = min(int(random.integers(3, 9)), len(words))
            chosen = random.choice(len(words), size=length, replace=False)
            found[" ".join(words[index] for index in chosen)] = None
    return list(found)[:count]


def _chunk(chunk: int) -> list[str]:
    random = np.random.default_rng([20_261, chunk])
    words = _words()
    lengths = np.clip(random.lognormal(np.log(MEDIAN_WORDS), 0.45, CHUNK), 8, 400).astype(int)
    ends = lengths.cumsum()
    drawn = _draw(random, int(ends[-1]))
    subjects = _draw(random, CHUNK * SUBJECT_WORDS, rarer=8).reshape(CHUNK, SUBJECT_WORDS)
    owner = np.repeat(np.arange(CHUNK), lengths)
    of_subject = subjects[owner, random.integers(0, SUBJECT_WORDS, ends[-1])]
    chosen = np.where(random.random(ends[-1]) < SUBJECT_SHARE, of_subject, drawn)
    spelled = words[chosen]
    return [" ".join(part) for part in np.split(spelled, ends[:-1])]


def _draw(random: np.random.Generator, size: int, rarer: int = 1) -> np.ndarray:
    """Ranks of words; ``rarer`` passes over the most frequent, as a subject does."""
    ranks = np.searchsorted(_cumulative_weights(), random.random(size))
    return np.minimum(ranks * rarer + (rarer - 1) * 40, VOCABULARY - 1)


@cache
def _cumulative_weights() -> np.ndarray:
    weights = (np.arange(1, VOCABULARY + 1) + SHIFT) ** -EXPONENT
    cumulated: np.ndarray = weights.cumsum() / weights.sum()
    return cumulated


@cache
def _words() -> np.ndarray:
    """Words by rank, the frequent ones short."""
    syllables = [onset + rime for onset in _ONSETS for rime in _RIMES]
    return np.array([_spell(rank, syllables) for rank in range(VOCABULARY)], dtype=object)


def _spell(rank: int, syllables: list[str]) -> str:
    """A number in the base of the syllables."""
    word = ""
    while True:
        rank, digit = divmod(rank, len(syllables))
        word += syllables[digit]
        if not rank:
            return word
        rank -= 1
