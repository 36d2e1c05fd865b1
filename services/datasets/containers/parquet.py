"""Rows of a Parquet file."""

import math
import mmap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from services.datasets.containers.container import Container
from services.datasets.containers.parquet_pages import ParquetPage, pages
from services.datasets.record import (
    MAX_DEPTH,
    JsonValue,
    Problem,
    Record,
    UnreadableFile,
    shown,
    without_padding,
)

_BATCH_ROWS = 16
"""Small, because a string stored once per page is copied for every row of a batch."""

_BUFFER_BYTES = 1024 * 1024

MAX_ROWS = 100_000_000
"""Maximum declared rows: a few kilobytes can declare billions."""
MAX_PAGES = 5_000_000
MAX_EXPANSION = 200
EXPANDED_BYTES = 64 * 2**20
"""Pages in memory together, one per column, must not both take more than this and expand by more
than `MAX_EXPANSION`: a page is decompressed as a whole, so that 28 kB could take gigabytes. The
sizes are those of the page headers, which readers use, not those of the footer."""


class ParquetReader:
    """Rows are objects with a key for each column; missing values are null, and absent from
    objects inside a column.

    Dates and times become ISO 8601 text, decimals numbers, bytes their UTF-8 text, and non-finite
    floats null.
    """

    container = Container.PARQUET

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self._path = path
        self._max_row_bytes = max_row_bytes
        self.share_read = 0.0

    def __iter__(self) -> Iterator[Record | Problem]:
        row = 0
        try:
            with (
                pa.OSFile(str(self._path)) as source,
                pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
            ):
                _check_size(file.metadata, self._path)
                total = max(1, file.metadata.num_rows)
                schema = _json_schema(file.schema_arrow)
                for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                    yield from self._rows(batch, schema, row)
                    row += batch.num_rows
                    self.share_read = min(1.0, row / total)
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
        """One row by itself, for batches with a row that is bad or too long."""
        if batch.nbytes > self._max_row_bytes:
            return Problem(row, f"is longer than {self._max_row_bytes:,} bytes")
        values = _values(batch, schema)
        if values is None:
            return Problem(row, "holds a value that JSON cannot express, or text that is not UTF-8")
        return Record(row, values[0])


def _check_size(metadata: pq.FileMetaData, path: Path) -> None:
    if metadata.num_rows > MAX_ROWS:
        raise UnreadableFile(f"the file has {metadata.num_rows:,} rows; {MAX_ROWS:,} are allowed")
    count = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            expanded = stored = 0
            for index in range(metadata.num_columns):
                largest = ParquetPage(0, 0)
                chunk = group.column(index)
                for page in _pages(content, chunk):
                    count += 1
                    largest = max(largest, page, key=lambda each: each.expanded)
                expanded, stored = expanded + largest.expanded, stored + largest.stored
                _check_expansion(shown(chunk.path_in_schema), expanded, stored)
                if count > MAX_PAGES:
                    raise UnreadableFile(f"the file has more than {MAX_PAGES:,} pages")


def _pages(content: mmap.mmap, chunk: pq.ColumnChunkMetaData) -> Iterator[ParquetPage]:
    starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
    start = min(offset for offset in starts if offset is not None)
    if start < 0 or chunk.total_compressed_size < 0:
        raise UnreadableFile(f"column {shown(chunk.path_in_schema)} has no place in the file")
    return pages(content, start, chunk.total_compressed_size)


def _check_expansion(column: str, expanded: int, stored: int) -> None:
    if expanded > max(EXPANDED_BYTES, MAX_EXPANSION * stored):
        raise UnreadableFile(
            f"column {column} expands from {stored:,} to {expanded:,} bytes with those before it, "
            f"more than {MAX_EXPANSION} times"
        )


def _cause(error: Exception) -> str:
    """Arrow's reason, on one line and of bounded length."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _values(batch: pa.RecordBatch, schema: pa.Schema) -> list[JsonValue] | None:
    try:
        rows = batch.cast(schema).to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, ValueError, LookupError):
        return None
    rows = [without_padding(row) for row in rows]
    return [_finite(row) for row in rows] if _has_floats(schema) else rows


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _json_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to cast rows to so that JSON can express every value, except for floats.

    Raises UnreadableFile for columns of the same name and for a type that cannot be cast.
    """
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise UnreadableFile(f"the file has two columns named {shown(name)}")
    return pa.schema([pa.field(field.name, _json_type(field.type, field.name)) for field in schema])


def _has_floats(schema: pa.Schema) -> bool:
    """Whether any value is a float, which may be NaN or infinite."""
    return any(_holds_float(field.type) for field in schema)


def _json_type(kind: pa.DataType, column: str, depth: int = 1) -> pa.DataType:
    if depth >= MAX_DEPTH:
        raise UnreadableFile(f"column {shown(column)} is nested more than {MAX_DEPTH} levels deep")
    if types.is_dictionary(kind):
        return _json_type(kind.value_type, column, depth)
    if types.is_struct(kind):
        fields = [pa.field(item.name, _json_type(item.type, column, depth + 1)) for item in kind]
        return pa.struct(fields)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.large_list(_json_type(kind.value_type, column, depth + 1))
    if types.is_map(kind):
        key = _json_type(kind.key_type, column, depth + 1)
        return pa.map_(key, _json_type(kind.item_type, column, depth + 1))
    return _json_leaf(kind, column)


def _json_leaf(kind: pa.DataType, column: str) -> pa.DataType:
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return kind
    if types.is_floating(kind) or types.is_decimal(kind):
        return pa.float64()
    if types.is_temporal(kind) or _is_text(kind):
        return pa.large_string()
    raise UnreadableFile(f"column {shown(column)} has the type {kind}, which JSON cannot express")


def _is_text(kind: pa.DataType) -> bool:
    """Binary columns count: writers without annotations store strings this way."""
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(kind) for test in (*tests, *binary))


def _holds_float(kind: pa.DataType) -> bool:
    if types.is_floating(kind):
        return True
    return any(_holds_float(kind.field(index).type) for index in range(kind.num_fields))
