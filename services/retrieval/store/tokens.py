"""Text analysis for any language.

Comparison ignores case and compatibility forms (NFKC: full width, ligatures). Words are stemmed for
one language. Scripts without spaces (Chinese, Japanese, Korean, Thai, Lao, Burmese, Khmer) become
characters and bigrams; queries of two or more such characters use bigrams only.
"""

import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import Stemmer

_UNSPACED = (
    (0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E81, 0x0ECE), (0x0EDC, 0x0EDF),  # Thai, Lao
    (0x1000, 0x103F), (0x1050, 0x108F), (0x1780, 0x17D3),  # Burmese, Khmer
    (0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97C), (0xAC00, 0xD7FB),  # Hangul
    (0x2E80, 0x2FD5), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B),  # Han
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF),
    (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF),  # kana
    (0x31F0, 0x31FF), (0x3105, 0x312F), (0x31A0, 0x31BF),  # kana, Bopomofo
)  # fmt: skip

_MARKS_END = 0x20000  # beyond it there are no marks but variation selectors


def _marks() -> str:
    """A character class of combining marks, which ``\\w`` lacks."""
    ranges: list[list[int]] = []
    for code in range(0x300, _MARKS_END):
        if unicodedata.category(chr(code)).startswith("M"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_MARKS = _marks()
_UNSPACED_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
_JAMO = "\u1160-\u11ff"  # vowels and finals of Hangul, which compose with what is before them

WORDS = re.compile(rf"[\w{_MARKS}]+")
"""Words of scripts that use spaces, in text without underscores."""

RUNS = re.compile(rf"([{_UNSPACED_CLASS}][{_UNSPACED_CLASS}{_MARKS}]*)")
"""Runs of scripts without spaces; `split` yields the rest (even) and runs (odd)."""

UNITS = re.compile(rf"(?s).[{_MARKS}]*")
"""Characters of a run, with their combining marks."""

COMPOSED = re.compile(rf"(?s).[{_MARKS}{_JAMO}]*")
"""Units of text that can be normalized separately."""


LANGUAGES = frozenset(Stemmer.algorithms())
"""Languages with a Snowball stemmer."""

MAX_TOKEN = 64
"""Tokens are truncated to this many characters."""


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token and its position in the text."""

    token: str
    start: int
    end: int


class Analyzer:
    """Tokenizes the texts of an index; thread-safe."""

    def __init__(self, language: str | None) -> None:
        """Stem for ``language``; None leaves words unchanged. Raises ValueError."""
        if language is not None and language not in LANGUAGES:
            known = ", ".join(sorted(LANGUAGES))
            raise ValueError(f"language {language!r} is not one of {known}")
        self.language = language
        self._stemmers = threading.local()

    def tokens(self, text: str) -> list[str]:
        """Tokens of a passage, with duplicates; none contains whitespace."""
        words, runs = self._words_and_runs(text)
        for units in runs:
            words += units
            words += _pairs(units)
        return words

    def query_tokens(self, text: str) -> list[str]:
        """Tokens of a query, with duplicates."""
        words, runs = self._words_and_runs(text)
        for units in runs:
            words += _pairs(units) or units
        return words

    def spans(self, text: str) -> list[TokenSpan]:
        """Tokens of a passage with their positions in ``text``."""
        normal, origins = _traced(text)
        pieces = list(_pieces(normal))
        stems = self._stems([piece.token for piece in pieces])
        return [
            TokenSpan(stem, origins[piece.start], origins[piece.end - 1] + 1)
            for stem, piece in zip(stems, pieces, strict=True)
        ]

    def _words_and_runs(self, text: str) -> tuple[list[str], list[list[str]]]:
        parts = RUNS.split(_normal(text))
        words = self._stems(_words(" ".join(parts[::2])))
        return words, [UNITS.findall(run) for run in parts[1::2]]

    def _stems(self, words: list[str]) -> list[str]:
        if self.language is not None:
            words = self._stemmer(self.language).stemWords(words)
        return [word if len(word) <= MAX_TOKEN else word[:MAX_TOKEN] for word in words]

    def _stemmer(self, language: str) -> Stemmer.Stemmer:
        """This thread's stemmer (stemmers are not thread-safe)."""
        stemmer = getattr(self._stemmers, "stemmer", None)
        if stemmer is None:
            stemmer = self._stemmers.stemmer = Stemmer.Stemmer(language, 0)
        return stemmer


def _words(normal: str) -> list[str]:
    """Same as WORDS.findall, five times faster for plain words."""
    words: list[str] = []
    for chunk in normal.split():
        if chunk.isalnum():
            words.append(chunk)
        else:
            words += WORDS.findall(chunk)
    return words


def _pairs(units: list[str]) -> list[str]:
    return [first + second for first, second in pairwise(units)]


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("_", " ")


def _traced(text: str) -> tuple[str, Sequence[int]]:
    """The normalized text, and the original position of each of its characters.

    A character composed of several maps to the last of them.
    """
    if text.isascii():
        return _normal(text), range(len(text))
    parts: list[str] = []
    origins: list[int] = []
    for match in COMPOSED.finditer(text):
        part = _normal(match[0])
        parts.append(part)
        if len(part) == len(match[0]):
            origins.extend(range(match.start(), match.end()))
        else:
            origins.extend([match.start()] * (len(part) - 1) + [match.end() - 1] * bool(part))
    return "".join(parts), origins


def _pieces(normal: str) -> Iterator[TokenSpan]:
    """Words, characters and bigrams of runs, with their positions in a normalized text."""
    start = 0
    for place, part in enumerate(RUNS.split(normal)):
        if place % 2:
            yield from _run_pieces(part, start)
        else:
            for match in WORDS.finditer(part):
                yield TokenSpan(match[0], start + match.start(), start + match.end())
        start += len(part)


def _run_pieces(run: str, start: int) -> Iterator[TokenSpan]:
    units = [
        TokenSpan(unit[0], start + unit.start(), start + unit.end()) for unit in UNITS.finditer(run)
    ]
    yield from units
    for one, next_one in pairwise(units):
        yield TokenSpan(one.token + next_one.token, one.start, next_one.end)
