"""Which characters make words, and which scripts write words without spaces between them."""

import re
import unicodedata

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
    """Accents, vowel signs and the like, as part of a character class: ``\\w`` lacks them."""
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
"""Words of scripts with spaces, in a text without underscores."""

RUNS = re.compile(rf"([{_UNSPACED_CLASS}][{_UNSPACED_CLASS}{_MARKS}]*)")
"""What is written without spaces; splits a text into the rest (even places) and runs (odd)."""

UNITS = re.compile(rf"(?s).[{_MARKS}]*")
"""The characters of a run, each with its marks."""

COMPOSED = re.compile(rf"(?s).[{_MARKS}{_JAMO}]*")
"""Pieces of a text that can be normalised one by one."""
