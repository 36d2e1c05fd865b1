"""Contamination: benchmark items that occur in training data, also altered: with different numbers,
or reordered."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

N = 13
"""Words of an n-gram, as in the contamination check of T. Brown et al., "Language Models are
Few-Shot Learners" (2020), appendix C."""
SHORTEST = 4
"""Words of the shortest question that is searched for within a line of text."""
TEMPLATE_ITEMS = 10
"""A sequence in more questions than these, and in more than half of all, is their template."""
LISTED_ROWS = 5
"""Maximum training rows that a finding lists; all are counted."""

_EAST_ASIAN = (  # Han, kana and Hangul
    "\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
    "\u1100-\u11ff\uac00-\ud7a3"
)
_SOUTHEAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
_UNSPACED = _EAST_ASIAN + _SOUTHEAST_ASIAN
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")
_WORD = 4
_SHORTER = ((re.compile(f"[{_EAST_ASIAN}]"), 2), (re.compile(f"[{_SOUTHEAST_ASIAN}]"), 1))
"""Quarters of a word: of every token, and of single characters that are tokens where no space, or
not every one, separates words. These have about two characters, or about four."""
_FIRST_UNSPACED = "\u0e00"
_SENTENCE_ENDS = frozenset("?.\u3002")
LABEL = re.compile(r"\s*\(?\w+(?:\s+\d+)?\s*[:.)\u3001]\s*")
"""What precedes a question in a list of them, such as ``Q:`` or ``3.``."""

Gram = tuple[str, ...]


class Overlap(StrEnum):
    """How a text holds an item: it equals the question, or shares `N` words in a row with it (all
    words of a shorter question)."""

    EXACT = "exact"
    N_GRAM = "n_gram"


class Contamination:
    """Finds texts that equal or contain a question, or share a sequence of `N` words with one.

    Texts are compared as lower-case words and single punctuation marks, which are words as well,
    after compatible characters were made alike (Unicode's NFKC), such as full-width punctuation. In
    scripts without spaces every character is compared, and is a part of a word: half of one in
    Chinese, Japanese and Korean. A question of fewer than `N` words must be contained as a whole;
    one of fewer than `SHORTEST` must be a line of the text, with or without a label such as ``Q:``
    and the end of its sentence; questions without words match nothing. A sequence of their
    template, such as an instruction that ends each of the questions, counts for nothing.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self._whole: dict[Gram, list[int]] = {}
        self._grams: dict[Gram, list[int]] = {}
        self._short: dict[Gram, set[Gram]] = {}  # by their first `SHORTEST` tokens
        self._lines: dict[Gram, list[int]] = {}
        items = 0
        for item, question in enumerate(questions):
            words = words_of(question)
            if words:
                self._whole.setdefault(words, []).append(item)
            for gram in set(grams_of(words)):
                self._grams.setdefault(gram, []).append(item)
            size = _size(words)
            if SHORTEST * _WORD <= size < N * _WORD:
                self._short.setdefault(words[:SHORTEST], set()).add(words)
            if 0 < size < SHORTEST * _WORD:
                self._lines.setdefault(_without_end(words), []).append(item)
            items += 1
        most = max(TEMPLATE_ITEMS, items // 2)
        self._grams = {gram: held for gram, held in self._grams.items() if len(held) <= most}

    def holds(self, text: str) -> bool:
        """Whether a text of the training data contains an item."""
        words = words_of(text)
        return words in self._whole or any(self._held(text, words))

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
            for start in range(len(words)):
                for question in self._short.get(words[start : start + SHORTEST], ()):
                    if words[start : start + len(question)] == question:
                        yield self._whole[question]
        if self._lines:
            for line in _normal(text).splitlines():
                label = LABEL.match(line)
                for piece in (line, line[label.end() :]) if label else (line,):
                    yield self._lines.get(_without_end(words_of(piece)), [])


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
    """Lower-case words, characters of scripts without spaces, and single punctuation marks."""
    return tuple(_TOKEN.findall(_normal(text).lower()))


def _normal(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def grams_of(words: Gram) -> Iterator[Gram]:
    """From each token on, the shortest sequence that is as long as `N` words, where there is
    one."""
    quarters = [_quarters(token) for token in words]
    end = total = 0
    for start, own in enumerate(quarters):
        while total < N * _WORD and end < len(words):
            total += quarters[end]
            end += 1
        if total < N * _WORD:
            return
        yield words[start:end]
        total -= own


def _size(words: Gram) -> int:
    """The length in quarters of a word."""
    return sum(map(_quarters, words))


def _quarters(token: str) -> int:
    if token < _FIRST_UNSPACED or len(token) > 1:
        return _WORD
    return next((size for script, size in _SHORTER if script.match(token)), _WORD)


def _without_end(words: Gram) -> Gram:
    """A line without the marks that end its sentence, unless it has nothing else."""
    end = len(words)
    while end > 1 and words[end - 1] in _SENTENCE_ENDS:
        end -= 1
    return words[:end]


_FIELD_END = re.compile(r"\n|(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])")
_NUMBER = "0"


class AlteredItems:
    """Finds texts that hold a question with changed numbers, or its fields in another order.

    Changed numbers: `N` words in a row are those of a question, but for numbers. Sequences that
    several questions share when their numbers are left out count for nothing: there, other numbers
    are other questions of the same kind. So do shorter questions, such as sums.

    Reordered fields: lines and sentences are fields, whose labels (``A.``, ``3)``) do not matter.
    A text holds all fields of the question that are not of the questions' template, which are at
    least two with `N` words together.

    ``others`` are further questions of the benchmark: they are not looked for, but show what of it
    is a template.
    """

    def __init__(self, questions: Iterable[str], others: Iterable[str] = ()) -> None:
        looked_for = {words_of(question): question for question in questions}
        different = looked_for | {words_of(question): question for question in others}
        masked = Counter(gram for words in different for gram in set(_masked_grams(words)))
        own_grams = {gram for words in looked_for for gram in _masked_grams(words)}
        self._grams = {gram for gram in own_grams if masked[gram] == 1}
        number_of = Counter(
            field for question in different.values() for field in set(_fields(question))
        )
        most = max(TEMPLATE_ITEMS, len(different) // 2)
        self._fields: dict[Gram, list[frozenset[Gram]]] = {}  # by the longest field
        for each in (set(_fields(question)) for question in looked_for.values()):
            own = frozenset(field for field in each if number_of[field] <= most)
            if len(own) > 1 and sum(map(_size, own)) >= N * _WORD:
                self._fields.setdefault(max(own, key=lambda field: (len(field), field)), []).append(
                    own
                )

    def holds(self, text: str) -> bool:
        """Whether a text of the training data contains an altered item."""
        if any(gram in self._grams for gram in _masked_grams(words_of(text))):
            return True
        given = set(_fields(text)) if self._fields else set()
        return any(own <= given for field in given for own in self._fields.get(field, ()))


def _masked_grams(words: Gram) -> Iterator[Gram]:
    """Sequences with numbers made alike; those without a number are not among them."""
    masked = tuple(_NUMBER if word.isdigit() else word for word in words)
    return (gram for gram in grams_of(masked) if _NUMBER in gram)


def _fields(text: str) -> Iterator[Gram]:
    for piece in map(_normal, _FIELD_END.split(text)):
        words = words_of(LABEL.sub("", piece, count=1)) if LABEL.match(piece) else words_of(piece)
        if words:
            yield words
