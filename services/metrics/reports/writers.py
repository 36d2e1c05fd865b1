"""Writes a report to a file, in the format of its suffix."""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from services.metrics.reports.document import Document, Table
from services.metrics.reports.html_page import write_html
from services.metrics.reports.markdown import write_markdown

LONE_SURROGATES = "replace"
"""How reports write what UTF-8 cannot encode: old rows may hold half a pair."""


def write_document(document: Document, path: Path) -> None:
    """Write a report in the format of the path's suffix, which is one of `WRITERS`."""
    WRITERS[path.suffix](document, path)


def _text(write: Callable[[TextIO, Document], None]) -> Callable[[Document, Path], None]:
    def to_file(document: Document, path: Path) -> None:
        with open(path, "w", encoding="utf-8", errors=LONE_SURROGATES) as file:
            write(file, document)

    return to_file


def _workbook(document: Document, path: Path) -> None:
    # openpyxl takes longer to import than the rest of a command.
    from services.metrics.reports.workbook import write_workbook  # noqa: PLC0415 - loaded with the first workbook

    write_workbook(path, document.sections)


def _json(file: TextIO, document: Document) -> None:
    json.dump(document.data(), file, ensure_ascii=False, indent=2)
    file.write("\n")


def _csv(document: Document, path: Path) -> None:
    """The tables with the columns of the first in one, distinguished by the first column."""
    # Excel takes it for UTF-8 by the mark.
    with open(path, "w", encoding="utf-8-sig", errors=LONE_SURROGATES, newline="") as file:
        writer = csv.writer(file)
        columns = None
        for section in document.sections:
            for table in (block for block in section.blocks if isinstance(block, Table)):
                if columns is None:
                    columns = table.columns
                    writer.writerow(("sheet", *columns))
                if table.columns == columns:
                    writer.writerows((section.title, *row) for row in table.rows)


WRITERS: Mapping[str, Callable[[Document, Path], None]] = {
    ".html": _text(write_html),
    ".xlsx": _workbook,
    ".md": _text(write_markdown),
    ".json": _text(_json),
    ".csv": _csv,
}
"""The writer of a report, by file suffix."""
