"""Benchmark items that occur in training data with different numbers, or reordered."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from services.metrics.contamination import LABEL, TEMPLATE_ITEMS, Gram, N, grams_of, words_of

_FIELD_END = re.compile(r"\n|(?<=[.!?;])\s+")
_NUMBER = "0"


class AlteredItems:
    """Finds texts that hold a question with changed numbers, or its fields in another order.

    Changed numbers: `N` tokens in a row are those of a question, but for numbers. Sequences that
    several questions share when their numbers are left out count for nothing: there, other numbers
    are other questions of the same kind. So do shorter questions, such as sums.

    Reordered fields: lines and sentences are fields, whose labels (``A.``, ``3)``) do not matter.
    A text holds all fields of the question that are not of the questions' template, which are at
    least two with `N` tokens together.

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
            if len(own) > 1 and sum(map(len, own)) >= N:
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
    for piece in _FIELD_END.split(text):
        words = words_of(LABEL.sub("", piece, count=1)) if LABEL.match(piece) else words_of(piece)
        if words:
            yield words
