"""Splits long texts into passages that fit an encoder's input."""

import re
from collections.abc import Iterator

PASSAGE_BYTES = 1000
"""Approximately the length of text an encoder reads. Bytes, because tokens of non-Latin scripts
hold fewer characters."""

_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n\s*")
_BREAKS = (re.compile(r"\n"), re.compile(r"[.!?。!?…][\"')\]]?(?=\s)|[。!?]"), re.compile(r"\s"))


def cut(text: str, most: int = PASSAGE_BYTES) -> Iterator[str]:
    """Yield non-empty passages of at most ``most`` bytes of UTF-8.

    Splits at paragraphs, else lines, else sentences, else words. Nothing but whitespace at the
    splits is lost. ``most`` is at least 4.
    """
    held, size = "", 0
    for paragraph in _PARAGRAPHS.split(text):
        for piece in _pieces(paragraph, most):
            length = len(piece.encode())
            if held and size + 2 + length <= most:
                held, size = f"{held}\n\n{piece}", size + 2 + length
                continue
            if held:
                yield held
            held, size = piece, length
    if held:
        yield held


def _pieces(paragraph: str, most: int) -> Iterator[str]:
    """Pieces of a paragraph, at most ``most`` bytes each."""
    start = 0
    while start < len(paragraph):
        window = _within(paragraph[start : start + most], most)
        whole = start + len(window) == len(paragraph)
        end = len(window) if whole else _break(window)
        if piece := window[:end].strip():
            yield piece
        start += end


def _within(text: str, most: int) -> str:
    """The longest prefix of at most ``most`` bytes."""
    encoded = text.encode()
    return text if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def _break(window: str) -> int:
    """Where to split a window: the last boundary in its second half, else its end."""
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(window, len(window) // 2)]
        if ends:
            return ends[-1]
    return len(window)
