"""Reading files of rows (JSONL, plain or gzip-compressed, JSON, Parquet, CSV) in bounded memory."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol

from services.datasets.containers.container import Container, detect_container
from services.datasets.containers.csv_table import CsvReader
from services.datasets.containers.gzip_jsonl import GzipJsonlReader
from services.datasets.containers.json_array import JsonArrayReader
from services.datasets.containers.jsonl import JsonlReader
from services.datasets.record import MAX_ROW_BYTES, Problem, Record


class RecordReader(Protocol):
    """Yields the rows of one file in order, each as a Record or as its Problem.

    Iterating raises UnreadableFile where the rest of the content cannot be read. ``share_read`` is
    the share of the file read so far, from 0 to 1.
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
    """Open a file by its content; raises UnreadableFile for an unknown container.

    Memory does not grow with the number of rows: it is bounded by the objects that one row of
    ``max_row_bytes`` can become, and for Parquet by the pages that its writer chose.
    """
    match detect_container(path):
        case Container.JSONL:
            return JsonlReader(path, max_row_bytes)
        case Container.JSON:
            return JsonArrayReader(path, max_row_bytes)
        case Container.GZIP:
            return GzipJsonlReader(path, max_row_bytes)
        case Container.CSV:
            return CsvReader(path, max_row_bytes)
        case Container.PARQUET:
            # Imported here: pyarrow takes as much memory as validating a JSONL file.
            parquet = import_module("services.datasets.containers.parquet")
            reader: RecordReader = parquet.ParquetReader(path, max_row_bytes)
            return reader
