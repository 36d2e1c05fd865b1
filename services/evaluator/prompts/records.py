"""Reads the records of a prompt batch: JSON, JSONL, Parquet, CSV and Excel."""

import csv
from collections.abc import Iterable, Iterator
from datetime import date, time
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from services.contracts.base import JsonObject
from services.datasets.reader import open_records
from services.datasets.record import MAX_ROW_BYTES, Problem, UnreadableFile, shown

DELIMITERS = ",;\t|"
"""Delimiters of CSV files that are detected."""
LOOKED_AT_ROWS = 100


def read_prompt_records(path: Path, delimiter: str | None = None) -> Iterator[JsonObject]:
    """The records in order; raises UnreadableFile naming the first row that is not an object.

    ``delimiter`` is that of a CSV file; None: it is detected. Empty cells are empty texts.
    """
    match path.suffix.lower():
        case ".csv":
            return _csv(path, delimiter)
        case ".xlsx":
            return _excel(path)
    return _json(path)


def _json(path: Path) -> Iterator[JsonObject]:
    for record in open_records(path):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        if not isinstance(record.value, dict):
            raise UnreadableFile(f"is {shown(record.value)}, not an object", row=record.row)
        yield record.value


def _csv(path: Path, delimiter: str | None) -> Iterator[JsonObject]:
    csv.field_size_limit(MAX_ROW_BYTES)
    delimiter = delimiter or _detected(path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True, delimiter=delimiter)
        try:
            yield from _table(lines)
        except (csv.Error, UnicodeDecodeError) as error:
            raise UnreadableFile(f"line {lines.line_num + 1} is not CSV: {error}") from error


def _detected(path: Path) -> str:
    """The delimiter that makes several columns of the first rows, the same number in each."""
    fitting = [delimiter for delimiter in DELIMITERS if _fits(path, delimiter)]
    if len(fitting) > 1:
        shown = " and ".join(map(repr, fitting))
        raise UnreadableFile(f"the delimiter may be {shown}: give --delimiter")
    return fitting[0] if fitting else DELIMITERS[0]


def _fits(path: Path, delimiter: str) -> bool:
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = islice(csv.reader(file, strict=True, delimiter=delimiter), LOOKED_AT_ROWS)
        try:
            columns = {len(line) for line in lines if line}
        except (csv.Error, UnicodeDecodeError):
            return False
    return len(columns) == 1 and max(columns) > 1


def _excel(path: Path) -> Iterator[JsonObject]:
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, KeyError, ValueError) as error:
        raise UnreadableFile(f"the file is not an Excel workbook: {error}") from error
    try:
        yield from _table(book.worksheets[0].iter_rows(values_only=True))
    finally:
        book.close()


def _table(lines: Iterable[Iterable[Any]]) -> Iterator[JsonObject]:
    """Records of a table whose first line names the fields; blank lines are skipped."""
    rows = iter(lines)
    fields = [str(name) if name is not None else "" for name in next(rows, ())]
    while fields and not fields[-1]:
        fields.pop()
    if not fields or "" in fields or len(set(fields)) < len(fields):
        raise UnreadableFile("the first row must name each column once")
    for number, line in enumerate(rows, start=1):
        cells = [_plain(cell) for cell in line]
        if not any(cell != "" for cell in cells):
            continue
        if any(cell != "" for cell in cells[len(fields) :]):
            raise UnreadableFile(f"has more than {len(fields)} columns", row=number)
        yield dict(zip_longest(fields, cells[: len(fields)], fillvalue=""))


def _plain(cell: Any) -> Any:
    if cell is None:
        return ""
    return cell.isoformat() if isinstance(cell, date | time) else cell
