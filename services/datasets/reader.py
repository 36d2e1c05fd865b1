"""Reading files of rows in bounded memory, whatever their container."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from services.datasets.container import Container, detect_container
from services.datasets.json_array import JsonArrayReader
from services.datasets.jsonl import JsonlReader
from services.datasets.parquet import ParquetReader
from services.datasets.record import MAX_ROW_BYTES, Problem, Record


class RecordReader(Protocol):
    """Yields the rows of one file in order, each as a Record or as the Problem it has.

    Iterating raises UnreadableFile where the content cannot be read any further. ``share_read``
    says how much of the file was read, from 0 to 1.
    """

    @property
    def container(self) -> Container:
        """How the rows are stored."""

    @property
    def share_read(self) -> float:
        """How much of the file was read."""

    def __iter__(self) -> Iterator[Record | Problem]:
        """Read the file from its beginning."""


def open_records(path: Path, *, max_row_bytes: int = MAX_ROW_BYTES) -> RecordReader:
    """Open a file by its content; raises UnreadableFile if that is no known container.

    Memory does not grow with the number of rows: it is bounded by the objects that one row of
    ``max_row_bytes`` can become, and for Parquet by the pages that its writer chose.
    """
    match detect_container(path):
        case Container.JSONL:
            return JsonlReader(path, max_row_bytes)
        case Container.JSON:
            return JsonArrayReader(path, max_row_bytes)
        case Container.PARQUET:
            return ParquetReader(path, max_row_bytes)
