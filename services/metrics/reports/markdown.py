"""Writes a report as Markdown; no text of it can become markup of the page."""

import html
import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from services.metrics.reports.document import (
    Block,
    Cell,
    Command,
    Document,
    Facts,
    Points,
    Table,
    cell_text,
)

_MARKUP = re.compile(r"([\\|`*_\[\]~#])")
_LIST_OR_RULE = re.compile(r"^(\d{0,9})([-+.)])(?=[-\s]|$)")
"""What begins a list, or a horizontal rule, at the beginning of a line."""


def write_markdown(file: TextIO, document: Document) -> None:
    """Write a document whose tables have a line for each row. Plots are left out."""
    file.write(f"# {_plain(document.title)}\n")
    file.writelines(_blocks(document.opening))
    for section in document.sections:
        file.write(f"\n## {_plain(section.title)}\n")
        file.writelines(_blocks(section.blocks))


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case str():
                yield f"\n{_plain(block)}\n"
            case Facts():
                yield "\n"
                yield from (f"- {_plain(k)}: {_plain(v)}\n" for k, v in block.pairs)
            case Points():
                yield "\n"
                yield from (f"- {_plain(text)}\n" for text in block.texts)
            case Command():
                yield _fenced(block.text)
            case Table():
                yield f"\n{_row(block.columns)}{'| --- ' * len(block.columns)}|\n"
                yield from map(_row, block.rows)


def _row(values: Iterable[Cell]) -> str:
    return f"| {' | '.join(_plain(cell_text(value)) for value in values)} |\n"


def _plain(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    line = " ".join(text.split())
    # Not every reader of Markdown lets a backslash escape "<".
    escaped = _MARKUP.sub(r"\\\1", html.escape(line, quote=False))
    return _LIST_OR_RULE.sub(r"\1\\\2", escaped)


def _fenced(text: str) -> str:
    """A code block that the text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}bash\n{text}\n{fence}\n"
