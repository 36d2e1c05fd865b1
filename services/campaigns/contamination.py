"""Training rows that hold items of the benchmark: found, removed and counted."""

import re
from collections.abc import Iterable

N = 13
"""Words of an n-gram, as in the contamination check of T. Brown et al., "Language Models are
Few-Shot Learners" (2020), appendix C."""

_WORD = re.compile(r"\w+|[^\w\s]")


class Contamination:
    """Finds texts that equal or contain a question, or share a sequence of `N` tokens with one.

    Texts are compared as lower-case words and single punctuation marks. Questions shorter than
    `N` match only whole texts.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self._whole: set[tuple[str, ...]] = set()
        self._grams: set[tuple[str, ...]] = set()
        for question in questions:
            words = _words(question)
            self._whole.add(words)
            self._grams.update(_grams(words))

    def holds(self, text: str) -> bool:
        """Whether a text of the training data holds an item."""
        words = _words(text)
        return words in self._whole or not self._grams.isdisjoint(_grams(words))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _grams(words: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return (words[start : start + N] for start in range(len(words) - N + 1))
