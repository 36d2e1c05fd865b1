"""Writes the rows of a prompt batch as JSON, JSONL, CSV, Parquet or Excel, in input order."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.metrics.reports.document import Section, Table
from services.metrics.reports.workbook import write_workbook
from services.parsing.foreign_json import escape_line_ends

EXCEL_ROWS = 1_048_575
_PARQUET_ROWS = 8192
_COLUMNS = {
    "index": "int64",
    "status_code": "int64",
    "result": "string",
    "error": "string",
    "time_cost": "float64",
    "usage": "string",
    "attempts": "int64",
    "model": "string",
    "endpoint": "string",
    "finish_reason": "string",
    "tool_calls": "string",
    "error_body": "string",
}
"""Columns of tables; lists and objects are JSON text in them."""
PARSED_COLUMNS = {"outcome": "string", "prediction": "string"}

Row = JsonObject


def write_rows(rows: Iterable[Row], path: Path, *, parsed: bool) -> None:
    """Replace ``path`` atomically by a file of the rows, in the format that its suffix names.

    ``parsed``: the rows have an outcome and a prediction. Raises InvalidRequest for more rows than
    a sheet of Excel holds.
    """
    columns = {**_COLUMNS, **(PARSED_COLUMNS if parsed else {})}
    # The suffix stays, since openpyxl looks at it.
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        _WRITERS[path.suffix.lower()](rows, temporary, columns)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _json(rows: Iterable[Row], path: Path, _columns: dict[str, str]) -> None:
    """An array with an indent of 2, written row by row."""
    with open(path, "wb") as file:
        separator = b"[\n  "
        for row in rows:
            # The pure-Python encoder that json has for indents takes ten times as long.
            text = escape_line_ends(to_json(row, indent=2).decode())
            file.write(separator + text.encode().replace(b"\n", b"\n  "))
            separator = b",\n  "
        file.write(b"[]" if separator.startswith(b"[") else b"\n]")


def _jsonl(rows: Iterable[Row], path: Path, _columns: dict[str, str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(
            escape_line_ends(json.dumps(row, ensure_ascii=False)) + "\n" for row in rows
        )


def _csv(rows: Iterable[Row], path: Path, columns: dict[str, str]) -> None:
    # Excel takes a file for UTF-8 by the mark at its beginning.
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(_cells(row, columns) for row in rows)


def _excel(rows: Iterable[Row], path: Path, columns: dict[str, str]) -> None:
    cells = (_cells(row, columns) for row in rows)
    write_workbook(path, [Section("rows", [Table(list(columns), _at_most(cells, EXCEL_ROWS))])])


def _at_most(rows: Iterator[list[Any]], most: int) -> Iterator[list[Any]]:
    yield from islice(rows, most)
    if next(rows, None) is not None:
        raise InvalidRequest(f"a sheet of Excel holds {most:,} rows; write .parquet or .csv")


def _parquet(rows: Iterable[Row], path: Path, columns: dict[str, str]) -> None:
    # Imported here: pyarrow takes more memory than a batch without it.
    import pyarrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in columns.items()])
    remaining = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(remaining, _PARQUET_ROWS)):
            cells = [dict(zip(columns, _cells(row, columns), strict=True)) for row in group]
            writer.write_table(pyarrow.Table.from_pylist(cells, schema))


def _cells(row: Row, columns: Iterable[str]) -> list[Any]:
    return [_cell(row.get(name), name) for name in columns]


def _cell(value: Any, column: str) -> Any:
    # A prediction may be of any type, so that it is always JSON.
    if isinstance(value, dict | list) or (column == "prediction" and value is not None):
        return json.dumps(value, ensure_ascii=False)
    return value


_WRITERS: dict[str, Callable[[Iterable[Row], Path, dict[str, str]], None]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
    ".xlsx": _excel,
}
