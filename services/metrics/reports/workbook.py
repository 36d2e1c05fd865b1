"""Writes the tables of a report as an Excel workbook."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font

from services.metrics.reports.document import Cell, Gain, Section, Table, Verdict, cell_text

MAX_CELL = 32_767
"""Maximum characters of an Excel cell; longer texts are truncated."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters outside of XML 1.0, section 2.2."""


def write_workbook(path: Path, sections: Iterable[Section]) -> None:
    """Write a sheet for each table, named for its section, with a bold, frozen first row.

    Fractions are shown with four decimals.

    Texts stay texts, even if they begin with ``=``; characters that XML cannot hold become
    U+FFFD.
    """
    book = Workbook(write_only=True)
    for section in sections:
        for table in (block for block in section.blocks if isinstance(block, Table)):
            sheet = book.create_sheet(section.title)
            sheet.freeze_panes = "A2"
            sheet.append([_cell(sheet, column, bold=True) for column in table.columns])
            for row in table.rows:
                sheet.append([_cell(sheet, value) for value in row])
    book.save(path)


def _cell(sheet: Any, value: Cell, *, bold: bool = False) -> Any:
    if isinstance(value, Verdict | Gain):
        value = cell_text(value)
    if isinstance(value, str):
        value = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)[:MAX_CELL]
    cell = WriteOnlyCell(sheet, value)
    if isinstance(value, str):
        cell.data_type = "s"
    elif isinstance(value, float):
        cell.number_format = "0.0000"
    if bold:
        cell.font = Font(bold=True)
    return cell
