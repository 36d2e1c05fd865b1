"""Rows of a CSV file: the first line names the columns."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path

from services.datasets.containers.container import Container
from services.datasets.containers.jsonl import JOINED
from services.datasets.record import Problem, Record, UnreadableFile


class CsvReader:
    """Rows are objects of texts, numbered from 1 without the line of names; empty cells are null.

    Cells may hold line breaks where they are quoted. Raises UnreadableFile for names that repeat
    and where the text is not UTF-8 or not CSV.
    """

    container = Container.CSV

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self._path = path
        self._max_row_bytes = max_row_bytes
        self.share_read = 0.0

    def __iter__(self) -> Iterator[Record | Problem]:
        csv.field_size_limit(self._max_row_bytes)
        row = 0
        with open(self._path, encoding="utf-8-sig", newline="") as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            read = 0

            def lines() -> Iterator[str]:
                nonlocal read
                while line := file.readline(self._max_row_bytes + 1):
                    read += len(line)
                    yield line

            table = csv.reader(lines(), strict=True)
            try:
                names = [name.strip() for name in next(table, [])]
                if len(set(names)) < len(names) or "" in names:
                    raise UnreadableFile("the first line must name each column once")
                for row, cells in enumerate(filter(None, table), start=1):
                    self.share_read = min(1.0, read / size)
                    yield self._row(row, names, cells)
            except (csv.Error, UnicodeDecodeError) as error:
                raise UnreadableFile(f"line {table.line_num + 1} is not CSV: {error}") from error

    def _row(self, row: int, names: list[str], cells: list[str]) -> Record | Problem:
        if len(cells) != len(names):
            return Problem(
                row, f"has {len(cells)} cells; the first line names {len(names)} columns"
            )
        if cells[0].startswith("\ufeff"):
            return Problem(row, JOINED)
        if cells == names:
            return Problem(row, "repeats the names of the columns, as where files were joined")
        if sum(map(len, cells)) > self._max_row_bytes:
            return Problem(row, f"is longer than {self._max_row_bytes:,} bytes")
        if any("\0" in cell for cell in cells):
            return Problem(row, "holds a NUL byte")
        return Record(row, {name: cell or None for name, cell in zip(names, cells, strict=True)})
