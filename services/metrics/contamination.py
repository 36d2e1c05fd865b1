"""Contamination: benchmark items that occur in training data."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

N = 13
"""Words of an n-gram, as in the contamination check of T. Brown et al., "Language Models are
Few-Shot Learners" (2020), appendix C."""
SHORTEST = 4
"""Tokens of the shortest question that is searched for within a line of text."""
TEMPLATE_ITEMS = 10
"""A sequence in more questions than these, and in more than half of all, is their template."""
LISTED_ROWS = 5
"""Maximum training rows that a finding lists; all are counted."""

_WORD = re.compile(r"\w+|[^\w\s]")
LABEL = re.compile(r"\s*\w+(?:\s+\d+)?\s*[:.)]\s*")
"""What precedes a question in a list of them, such as ``Q:`` or ``3.``."""

Gram = tuple[str, ...]


class Overlap(StrEnum):
    """How a text holds an item: it equals the question, or shares `N` tokens in a row with it (all
    tokens of a shorter question)."""

    EXACT = "exact"
    N_GRAM = "n_gram"


class Contamination:
    """Finds texts that equal or contain a question, or share a sequence of `N` tokens with one.

    Texts are compared as lower-case words and single punctuation marks. A question of fewer than
    `N` tokens must be contained as a whole; one of fewer than `SHORTEST` must be a line of the
    text, with or without a label such as ``Q:``; questions without words match nothing. A sequence
    of their template, such as an instruction that ends each of the questions, counts for nothing.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self._whole: dict[Gram, list[int]] = {}
        self._grams: dict[Gram, list[int]] = {}
        self._short: dict[Gram, set[Gram]] = {}  # by their first `SHORTEST` tokens
        self._has_lines = False
        items = 0
        for item, question in enumerate(questions):
            words = words_of(question)
            if words:
                self._whole.setdefault(words, []).append(item)
            for gram in set(grams_of(words)):
                self._grams.setdefault(gram, []).append(item)
            if SHORTEST <= len(words) < N:
                self._short.setdefault(words[:SHORTEST], set()).add(words)
            self._has_lines |= 0 < len(words) < SHORTEST
            items += 1
        most = max(TEMPLATE_ITEMS, items // 2)
        self._grams = {gram: held for gram, held in self._grams.items() if len(held) <= most}

    def holds(self, text: str) -> bool:
        """Whether a text of the training data contains an item."""
        words = words_of(text)
        return words in self._whole or any(True for _ in self._held(text, words))

    def items_in(self, text: str) -> dict[int, Overlap]:
        """The positions of the items that a text contains; an exact match outranks an n-gram."""
        words = words_of(text)
        found = {item: Overlap.N_GRAM for items in self._held(text, words) for item in items}
        return found | dict.fromkeys(self._whole.get(words, ()), Overlap.EXACT)

    def _held(self, text: str, words: Gram) -> Iterator[list[int]]:
        """The items of each sequence, and of each short question, that a text contains."""
        for gram in grams_of(words):
            if gram in self._grams:
                yield self._grams[gram]
        if self._short:
            for start, opening in enumerate(grams_of(words, SHORTEST)):
                for question in self._short.get(opening, ()):
                    if words[start : start + len(question)] == question:
                        yield self._whole[question]
        if self._has_lines:
            for line in text.splitlines():
                for piece in (line, LABEL.sub("", line, count=1)):
                    tokens = words_of(piece)
                    if len(tokens) < SHORTEST and tokens in self._whole:
                        yield self._whole[tokens]


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
    """The result of a scan: ``found`` are the items that occur in training rows, in order."""

    items: int
    rows: int
    contaminated_rows: int
    found: list[ContaminatedItem]


def said_by_users(messages: Iterable[Mapping[str, Any]]) -> str:
    """The question of a conversation; system prompts are the same in all rows and are ignored."""
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


def words_of(text: str) -> Gram:
    """Lower-case words and single punctuation marks."""
    return tuple(_WORD.findall(text.lower()))


def grams_of(words: Gram, length: int = N) -> Iterator[Gram]:
    """All n-grams of the given length in tokens."""
    return (words[start : start + length] for start in range(len(words) - length + 1))
