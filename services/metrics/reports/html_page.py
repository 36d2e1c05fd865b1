"""Writes a report as one HTML page that loads nothing."""

import html
from collections.abc import Iterable, Iterator
from typing import TextIO

from services.metrics.reports.document import (
    Block,
    Cell,
    Command,
    Document,
    Facts,
    Fold,
    Gain,
    Points,
    Table,
    Verdict,
    cell_text,
)

BAR_WIDTH = 200
"""Width of the bar of an interval, in pixels."""

_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }}
body {{ margin: 2rem auto; max-width: 80rem; padding: 0 1rem }}
section {{ overflow-x: auto }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ border-bottom: 1px solid #8884; padding: .3rem .6rem; text-align: left }}
td {{ vertical-align: top; white-space: pre-wrap; overflow-wrap: break-word; max-width: 32rem }}
td {{ unicode-bidi: plaintext }}
dt {{ font-weight: 600 }}
dd {{ margin: 0 0 .4rem }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; margin: 0 }}
h4 {{ margin: .6rem 0 .2rem }}
details details {{ margin-left: 1.2rem; border-left: 2px solid #8884; padding-left: .6rem }}
summary {{ cursor: pointer; padding: .15rem 0; unicode-bidi: plaintext }}
svg {{ max-width: 100%; height: auto }}
svg text {{ fill: currentColor; font: 13px system-ui, sans-serif }}
.good {{ color: light-dark(#18794e, #4cc38a) }}
.fair {{ color: light-dark(#946800, #f1a10d) }}
.bad {{ color: light-dark(#c62a2f, #ff6369) }}
</style>
<h1>{title}</h1>
"""


def write_html(file: TextIO, document: Document) -> None:
    """Write a page; all text of the document is escaped."""
    file.write(_HEAD.format(title=html.escape(document.title)))
    file.writelines(_blocks(document.opening))
    for section in document.sections:
        file.write(f"<h2>{html.escape(section.title)}</h2>\n")
        file.writelines(_blocks(section.blocks))
    file.write("</html>\n")


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case str():
                yield f"<p>{html.escape(block)}</p>\n"
            case Facts():
                pairs = "".join(
                    f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>\n" for k, v in block.pairs
                )
                yield f"<dl>{pairs}</dl>\n"
            case Points():
                yield "<ul>\n"
                yield from (f"<li>{html.escape(text)}</li>\n" for text in block.texts)
                yield "</ul>\n"
            case Command():
                yield f"<pre>{html.escape(block.text)}</pre>\n"
            case Table():
                yield "<section>"
                yield from _rows(block) if block.folds is None else _folds(block.folds)
                yield "</section>\n"
            case _:
                yield f"<section>{block.svg()}</section>\n"


def _rows(table: Table) -> Iterator[str]:
    heading = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    yield f"<table><thead><tr>{heading}</tr>\n</thead>\n<tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(map(_cell, row))}</tr>\n"
    yield "</tbody></table>"


def _cell(value: Cell) -> str:
    text = html.escape(cell_text(value))
    match value:
        case Verdict():
            return f'<td class="{value.tone}">{text}</td>'
        case Gain():
            return f"<td>{_bar(value, text)}\n{text}</td>"
        case _:
            return f"<td>{text}</td>"


def _bar(gain: Gain, label: str) -> str:
    """An interval around an axis at 0."""
    low, middle, high, zero = (
        round(BAR_WIDTH / 2 * (1 + value / gain.scale), 1)
        for value in (gain.ci95[0], gain.difference, gain.ci95[1], 0.0)
    )
    return (
        f'<svg role="img" aria-label="{label}" width="{BAR_WIDTH}" height="12">'
        f'<path d="M{zero} 0V12" stroke="#888"/>'
        f'<path d="M{low} 6H{high}" stroke="currentColor" stroke-width="3"/>'
        f'<circle cx="{middle}" cy="6" r="4" fill="currentColor"/></svg>'
    )


def _folds(folds: Iterable[Fold]) -> Iterator[str]:
    for fold in folds:
        yield f"<details><summary>{html.escape(fold.heading)}</summary>\n"
        for part in fold.content:
            if isinstance(part, Fold):
                yield from _folds([part])
            else:
                heading, text = map(html.escape, part)
                yield f"<h4>{heading}</h4><pre>{text}</pre>\n"
        yield "</details>\n"
