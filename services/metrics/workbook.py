"""Excel workbooks of plain tables."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font

from services.metrics.tables import Cell, Sheet

MAX_CELL = 32_767
"""Maximum characters of an Excel cell; longer texts are truncated."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters outside of XML 1.0, section 2.2."""


def write_workbook(path: Path, sheets: Iterable[Sheet]) -> None:
    """Write sheets with a bold, frozen first row; fractions are shown with four decimals.

    Texts stay texts, even if they begin with ``=``; characters that XML cannot hold become
    U+FFFD.
    """
    book = Workbook(write_only=True)
    for name, columns, rows in sheets:
        sheet = book.create_sheet(name)
        sheet.freeze_panes = "A2"
        sheet.append([_cell(sheet, column, bold=True) for column in columns])
        for row in rows:
            sheet.append([_cell(sheet, value) for value in row])
    book.save(path)


def _cell(sheet: Any, value: Cell, *, bold: bool = False) -> Any:
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
