"""Contamination: items of a benchmark that training data hold."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

N = 13
"""Words of an n-gram, as in the contamination check of T. Brown et al., "Language Models are
Few-Shot Learners" (2020), appendix C."""
TEMPLATE_ITEMS = 10
"""A sequence in more questions than these, and in more than half of all, is their template."""
LISTED_ROWS = 5
"""Training rows that a finding names at most; all are counted."""

_WORD = re.compile(r"\w+|[^\w\s]")

Gram = tuple[str, ...]


class Overlap(StrEnum):
    """How a text holds an item: it equals the question, or shares `N` tokens in a row with it."""

    EXACT = "exact"
    N_GRAM = "n_gram"


class Contamination:
    """Finds texts that equal or contain a question, or share a sequence of `N` tokens with one.

    Texts are compared as lower-case words and single punctuation marks. Questions shorter than
    `N` match only whole texts; questions without words match nothing. A sequence of their
    template, such as an instruction that ends each of the questions, counts for nothing.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self._whole: dict[Gram, list[int]] = {}
        self._grams: dict[Gram, list[int]] = {}
        items = 0
        for item, question in enumerate(questions):
            words = _words(question)
            if words:
                self._whole.setdefault(words, []).append(item)
            for gram in set(_grams(words)):
                self._grams.setdefault(gram, []).append(item)
            items += 1
        most = max(TEMPLATE_ITEMS, items // 2)
        self._grams = {gram: held for gram, held in self._grams.items() if len(held) <= most}

    def holds(self, text: str) -> bool:
        """Whether a text of the training data holds an item."""
        words = _words(text)
        return words in self._whole or any(gram in self._grams for gram in _grams(words))

    def items_in(self, text: str) -> dict[int, Overlap]:
        """The positions of the items that a text holds; an exact match outranks an n-gram."""
        words = _words(text)
        found = {
            item: Overlap.N_GRAM for gram in _grams(words) for item in self._grams.get(gram, ())
        }
        return found | dict.fromkeys(self._whole.get(words, ()), Overlap.EXACT)


@dataclass(slots=True)
class ContaminatedItem:
    """An item, counted from 0, and the training rows that hold it, counted from 0.

    ``exact`` of the ``rows`` hold a text that equals the question; ``first_rows`` are the first
    `LISTED_ROWS` of them.
    """

    item: int
    rows: int = 0
    exact: int = 0
    first_rows: list[int] = field(default_factory=list)

    def add(self, row: int, overlap: Overlap) -> None:
        """Count one training row."""
        self.rows += 1
        self.exact += overlap is Overlap.EXACT
        if len(self.first_rows) < LISTED_ROWS:
            self.first_rows.append(row)


@dataclass(frozen=True, slots=True)
class ContaminationReport:
    """What a scan found: ``found`` are the items that training rows hold, in their order."""

    items: int
    rows: int
    contaminated_rows: int
    found: list[ContaminatedItem]


def said_by_users(messages: Iterable[Mapping[str, Any]]) -> str:
    """The question of a conversation; system prompts are alike in all rows."""
    contents = (each.get("content") for each in messages if each.get("role") == "user")
    return "\n".join(content for content in contents if isinstance(content, str))


def find_contamination(questions: Sequence[str], rows: Iterable[Any]) -> ContaminationReport:
    """Look for the questions of a benchmark in every text of the training rows.

    A row is any JSON value; its texts are compared one by one, so that a question is found as the
    content of a message, as a prompt or inside a longer document. ``rows`` is read once.
    """
    contamination = Contamination(questions)
    found: dict[int, ContaminatedItem] = {}
    total = contaminated = 0
    for row, value in enumerate(rows):
        total += 1
        overlaps: dict[int, Overlap] = {}
        for text in _texts(value):
            for item, overlap in contamination.items_in(text).items():
                if overlaps.get(item) is not Overlap.EXACT:
                    overlaps[item] = overlap
        for item, overlap in overlaps.items():
            found.setdefault(item, ContaminatedItem(item)).add(row, overlap)
        contaminated += bool(overlaps)
    return ContaminationReport(
        len(questions), total, contaminated, [found[item] for item in sorted(found)]
    )


def _texts(value: Any) -> Iterator[str]:
    """Every text of a JSON value, whatever its depth."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _words(text: str) -> Gram:
    return tuple(_WORD.findall(text.lower()))


def _grams(words: Gram) -> Iterator[Gram]:
    return (words[start : start + N] for start in range(len(words) - N + 1))
