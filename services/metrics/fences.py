"""Fenced blocks of Markdown, as models write them: in lists and quotes, and cut off at the end."""

import re
from dataclasses import dataclass

_QUOTE = re.compile(r"[ ]{0,3}(?:>[ ]?)+")
_OPENING = re.compile(
    r"(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)"
    r"(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)"
)
MAX_CLOSING_INDENT = 3
"""Spaces that a closing fence may be indented beyond its opening one (CommonMark)."""
_LANGUAGE = re.compile(r"[\w+#.-]+")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the first word behind its opening fence in lower case, and its lines without
    the indentation of the fence. One at the end of the text may be unclosed."""

    language: str
    content: str
    closed: bool


def fenced_blocks(text: str) -> list[Block]:
    """The blocks of a text in order, in linear time.

    A fence has three or more backticks or tildes. It is closed by a line of at least as many of the
    same and nothing else, so that backticks within a line of the content do not end it.
    """
    blocks: list[Block] = []
    open_block: _Open | None = None
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        if open_block is None:
            open_block = _opened(line)
        elif open_block.is_closed_by(line):
            blocks.append(open_block.block(closed=True))
            open_block = None
        else:
            open_block.lines.append(open_block.content_of(line))
    if open_block is not None:
        blocks.append(open_block.block(closed=False))
    return blocks


@dataclass(slots=True)
class _Open:
    quoted: bool
    indent: int
    fence: str
    language: str
    lines: list[str]

    def is_closed_by(self, line: str) -> bool:
        line = self._unquoted(line)
        inner = line.strip(" \t")
        indent = len(line) - len(line.lstrip(" \t"))
        return (
            len(inner) >= len(self.fence)
            and inner == self.fence[0] * len(inner)
            and indent <= self.indent + MAX_CLOSING_INDENT
        )

    def content_of(self, line: str) -> str:
        line = self._unquoted(line)
        indent = len(line) - len(line.lstrip(" \t"))
        return line[min(indent, self.indent) :]

    def _unquoted(self, line: str) -> str:
        quote = _QUOTE.match(line) if self.quoted else None
        return line[quote.end() :] if quote else line

    def block(self, *, closed: bool) -> Block:
        return Block(self.language, "\n".join(self.lines), closed)


def _opened(line: str) -> _Open | None:
    quote = _QUOTE.match(line)
    found = _OPENING.fullmatch(line, quote.end() if quote else 0)
    if found is None:
        return None
    language = _LANGUAGE.search(found["info"])
    name = language[0].lower() if language else ""
    return _Open(quote is not None, len(found["indent"]), found["fence"], name, [])
