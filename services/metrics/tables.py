"""Tables as one self-contained HTML page, and as Markdown."""

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

Cell = str | int | float | None
Sheet = tuple[str, Sequence[str], Iterable[Sequence[Cell]]]
"""The name, the columns and the rows of a table."""

LONE_SURROGATES = "replace"
"""How reports write what UTF-8 cannot encode: old rows may hold half a pair."""

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
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; margin: 0 }}
h4 {{ margin: .6rem 0 .2rem }}
details details {{ margin-left: 1.2rem; border-left: 2px solid #8884; padding-left: .6rem }}
summary {{ cursor: pointer; padding: .15rem 0; unicode-bidi: plaintext }}
svg {{ max-width: 100%; height: auto }}
svg text {{ fill: currentColor; font: 13px system-ui, sans-serif }}
</style>
<h1>{title}</h1>
"""


def write_html(
    path: Path,
    title: str,
    summary: str,
    sheets: Iterable[Sheet],
    plots: Iterable[str] = (),
    sections: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> None:
    """Write a page that loads nothing; ``plots`` are SVG and ``sections``, which follow the tables,
    are HTML by their headings: every text else is escaped."""
    with open(path, "w", encoding="utf-8", errors=LONE_SURROGATES) as file:
        file.write(_HEAD.format(title=html.escape(title)))
        file.write(f"<p>{html.escape(summary)}</p>\n")
        file.writelines(f"<section>{figure}</section>\n" for figure in plots)
        for name, columns, rows in sheets:
            file.write(f"<h2>{html.escape(name)}</h2>\n<section><table><thead>")
            file.write(f"{_html_row(columns, 'th')}</thead>\n<tbody>")
            file.writelines(_html_row(row, "td") for row in rows)
            file.write("</tbody></table></section>\n")
        for name, pieces in sections.items():
            file.write(f"<h2>{html.escape(name)}</h2>\n<section>")
            file.writelines(pieces)
            file.write("</section>\n")
        file.write("</html>\n")


def write_markdown(path: Path, title: str, summary: str, sheets: Iterable[Sheet]) -> None:
    """Write a document whose tables have a line for each row."""
    with open(path, "w", encoding="utf-8", errors=LONE_SURROGATES) as file:
        file.write(f"# {_markdown(title)}\n\n{_markdown(summary)}\n")
        for name, columns, rows in sheets:
            file.write(f"\n## {_markdown(name)}\n\n{_markdown_row(columns)}")
            file.write(_markdown_row(["---"] * len(columns)))
            file.writelines(map(_markdown_row, rows))


def _html_row(values: Iterable[Cell], tag: str) -> str:
    cells = (f"<{tag}>{html.escape(_text(value))}</{tag}>" for value in values)
    return f"<tr>{''.join(cells)}</tr>\n"


def _markdown_row(values: Iterable[Cell]) -> str:
    return f"| {' | '.join(_markdown(_text(value)) for value in values)} |\n"


def _markdown(text: str) -> str:
    """A text on one line that Markdown shows as it is: no cells, tags or links of its own."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return "".join(f"\\{each}" if each in "\\|`*_[]" else each for each in escaped)


def _text(value: Cell) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
