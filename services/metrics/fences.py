"""Fenced blocks of Markdown, as models write them: in lists and quotes, and cut off at the end."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

_QUOTE = re.compile(r"[ ]{0,3}(?:>[ ]?)+")
_OPENING = re.compile(
    r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)"
    r"(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)"
)
MAX_CLOSING_INDENT = 3
"""Spaces that a closing fence may be indented beyond its opening one (CommonMark)."""
_LANGUAGE = re.compile(r"[\w+#.-]+")
_PYTHON = ("python", "py", "python3", "py3")
MAX_PARSES = 64
"""Python blocks of one text that are parsed to find their end."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the first word behind its opening fence in lower case, and its lines without
    the indentation of the fence. One at the end of the text may be unclosed."""

    language: str
    content: str
    closed: bool


def fenced_blocks(text: str) -> list[Block]:
    """The blocks of a text in order.

    A fence has three or more backticks or tildes. It is closed by a line of at least as many of the
    same and nothing else, so that backticks within a line of the content do not end it. A string of
    a Python program may hold such a line: its block ends at the first one at which the program is
    complete, and at the first one of all where it never is.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    blocks: list[Block] = []
    parses = MAX_PARSES
    number = 0
    while number < len(lines):
        opening = _opened(lines[number])
        number += 1
        if opening is None:
            continue
        first = end = opening.closing(lines, number)
        while opening.language in _PYTHON and end is not None and parses:
            parses -= 1
            if _is_python(opening.content(lines[number:end])):
                first = end
                break
            end = opening.closing(lines, end + 1)
        last = len(lines) if first is None else first
        content = opening.content(lines[number:last])
        blocks.append(Block(opening.language, content, closed=first is not None))
        number = last + 1
    return blocks


@dataclass(frozen=True, slots=True)
class _Opening:
    quoted: bool
    indent: int
    fence: str
    language: str

    def closing(self, lines: Sequence[str], start: int) -> int | None:
        """The number of the first line from ``start`` that closes the block."""
        numbers = range(start, len(lines))
        return next((number for number in numbers if self._closes(lines[number])), None)

    def content(self, lines: Sequence[str]) -> str:
        """Lines of the block as its text."""
        unquoted = [self._unquoted(line) for line in lines]
        indents = [len(line) - len(line.lstrip(" \t")) for line in unquoted]
        pairs = zip(unquoted, indents, strict=True)
        return "\n".join(line[min(indent, self.indent) :] for line, indent in pairs)

    def _closes(self, line: str) -> bool:
        line = self._unquoted(line)
        inner = line.strip(" \t")
        indent = len(line) - len(line.lstrip(" \t"))
        return (
            len(inner) >= len(self.fence)
            and inner == self.fence[0] * len(inner)
            and indent <= self.indent + MAX_CLOSING_INDENT
        )

    def _unquoted(self, line: str) -> str:
        quote = _QUOTE.match(line) if self.quoted else None
        return line[quote.end() :] if quote else line


def _opened(line: str) -> _Opening | None:
    quote = _QUOTE.match(line)
    found = _OPENING.fullmatch(line, quote.end() if quote else 0)
    if found is None:
        return None
    language = _LANGUAGE.search(found["info"])
    name = language[0].lower() if language else ""
    return _Opening(quote is not None, len(found["indent"]), found["fence"], name)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
