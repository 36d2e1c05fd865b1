"""Rows of a Parquet file."""

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from services.datasets.container import Container
from services.datasets.parquet_types import has_floats, json_schema
from services.datasets.record import JsonValue, Problem, Record, UnreadableFile

_BATCH_ROWS = 16
"""Few, because a text that a page stores once is unfolded for every row of a batch."""

_BUFFER_BYTES = 1024 * 1024


class ParquetReader:
    """Rows are objects with a key for each column; what a row lacks is null.

    Dates and times become ISO 8601 text, decimals numbers, bytes the UTF-8 text that they hold,
    and floats that are not finite null.
    """

    container = Container.PARQUET

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self._path = path
        self._max_row_bytes = max_row_bytes
        self._share_read = 0.0

    @property
    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return self._share_read

    def __iter__(self) -> Iterator[Record | Problem]:
        row = 0
        try:
            with (
                pa.OSFile(str(self._path)) as source,
                pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
            ):
                total = max(1, file.metadata.num_rows)
                schema = json_schema(file.schema_arrow)
                for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                    yield from self._rows(batch, schema, row)
                    row += batch.num_rows
                    self._share_read = min(1.0, row / total)
        except (pa.ArrowException, OSError, ValueError, RuntimeError, LookupError) as error:
            raise UnreadableFile(f"the Parquet file is damaged: {_cause(error)}") from error

    def _rows(
        self, batch: pa.RecordBatch, schema: pa.Schema, before: int
    ) -> Iterator[Record | Problem]:
        values = None if batch.nbytes > self._max_row_bytes else _values(batch, schema)
        for position in range(batch.num_rows):
            row = before + position + 1
            if values is not None:
                yield Record(row, values[position])
            else:
                yield self._single(batch.slice(position, 1), schema, row)

    def _single(self, batch: pa.RecordBatch, schema: pa.Schema, row: int) -> Record | Problem:
        """One row on its own, after a batch turned out to hold one that is bad or too long."""
        if batch.nbytes > self._max_row_bytes:
            return Problem(row, f"is longer than {self._max_row_bytes:,} bytes")
        values = _values(batch, schema)
        if values is None:
            return Problem(row, "holds a value that JSON cannot express, or text that is not UTF-8")
        return Record(row, values[0])


def _cause(error: Exception) -> str:
    """Arrow's reason, on one line and of bounded length."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _values(batch: pa.RecordBatch, schema: pa.Schema) -> list[JsonValue] | None:
    try:
        rows = batch.cast(schema).to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, ValueError, LookupError):
        return None
    return [_finite(row) for row in rows] if has_floats(schema) else rows


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
