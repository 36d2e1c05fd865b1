"""Pages of a file's rows from any position, for display."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self

from services.contracts.errors import InvalidRequest
from services.datasets.containers.container import Container, detect_container
from services.datasets.containers.jsonl import JsonlReader
from services.datasets.reader import open_records
from services.datasets.record import MAX_ROW_BYTES, Problem, Record

_PLACE = re.compile(r"(\d{1,12})(?:-(\d{1,15}))?", re.ASCII)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A position after a row; in JSONL also the offset of its line end, to seek to."""

    row: int = 0
    offset: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """The place with this id, or after the row with this number; None is the start of the file.
        Raises `InvalidRequest`.
        """
        if text is None:
            return cls()
        match = _PLACE.fullmatch(text)
        if match is None:
            raise InvalidRequest("is not the id or number of a row", param="after")
        return cls(int(match[1]), None if match[2] is None else int(match[2]))

    @property
    def id(self) -> str:
        """The id that `parse` reads."""
        return str(self.row) if self.offset is None else f"{self.row}-{self.offset}"


def rows_behind(path: Path, place: Place) -> Iterator[tuple[Place, Record | Problem]]:
    """The rows after a place, each with its own place; raises UnreadableFile where reading fails.
    Only JSONL supports seeking: other files are read from the start.
    """
    if detect_container(path) is Container.JSONL:
        yield from _lines_behind(path, place)
        return
    for record in open_records(path):
        number = record.row or 0
        if number > place.row:
            yield Place(number), record


def _lines_behind(path: Path, place: Place) -> Iterator[tuple[Place, Record | Problem]]:
    with open(path, "rb") as file:
        if place.offset is None:
            _skip_lines(file, place.row)
        else:
            _enter(file, place.offset)
        for record in JsonlReader(path, MAX_ROW_BYTES).records(file):
            number = place.row + (record.row or 0)
            yield Place(number, file.tell()), replace(record, row=number)


def _enter(file: BinaryIO, offset: int) -> None:
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, offset - 1))
    if not 0 < offset <= size or (file.read(1) != b"\n" and offset < size):
        raise InvalidRequest("is not the id of a row of this file", param="after")


def _skip_lines(file: BinaryIO, lines: int) -> None:
    while lines and (chunk := file.read(_CHUNK_BYTES)):
        found = chunk.count(b"\n")
        if found < lines:
            lines -= found
            continue
        end = -1
        for _ in range(lines):
            end = chunk.index(b"\n", end + 1)
        file.seek(end + 1 - len(chunk), os.SEEK_CUR)
        return
