"""Read files of rows: JSON Lines, a JSON list, Parquet or CSV."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.parsing.foreign_json import escape_line_ends
from temper.submission.submission import SubmissionError

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")
MAX_JSON_BYTES = 1 << 30
"""Limit for JSON lists, which are read into memory."""
CSV_FIELD_BYTES = 16 << 20


def read_rows(path: Path) -> Iterator[JsonObject]:
    """Yield a file's rows, parsed by suffix; raises `SubmissionError` with file and row."""
    match path.suffix.lower():
        case ".jsonl":
            rows = _json_lines(path)
        case ".json":
            rows = _json_list(path)
        case ".parquet":
            rows = _parquet(path)
        case ".csv":
            rows = _csv(path)
        case _:
            raise SubmissionError(f"{path}: is not one of {', '.join(SUFFIXES)}")
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise SubmissionError(f"{path}: row {number} is not an object")
            yield row
    except (ValueError, RecursionError, csv.Error) as error:
        raise SubmissionError(f"{path}: after row {number}: {error}") from error


def write_rows(path: Path, rows: Iterator[JsonObject], most: int | None = None) -> int:
    """Write up to ``most`` rows as JSON Lines; return their number."""
    number = 0
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            if number == most:
                break
            text = json.dumps(row, ensure_ascii=False, default=_plain)
            file.write(f"{escape_line_ends(text)}\n")
            number += 1
    return number


def _plain(value: Any) -> str:
    """Return times and decimals of Parquet as text."""
    if isinstance(value, bytes):
        raise SubmissionError("a field holds binary data, which JSON cannot represent")
    return str(value)


def _json_lines(path: Path) -> Iterator[Any]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def _json_list(path: Path) -> Iterator[Any]:
    if path.stat().st_size > MAX_JSON_BYTES:
        raise SubmissionError(f"{path}: is larger than {MAX_JSON_BYTES >> 30} GiB; use JSON Lines")
    text = path.read_text(encoding="utf-8")
    if not text.lstrip().startswith("["):  # JSON Lines under another suffix
        yield from _json_lines(path)
        return
    yield from json.loads(text)


def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - every command would load it
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise ValueError(error) from error


def _csv(path: Path) -> Iterator[Any]:
    csv.field_size_limit(CSV_FIELD_BYTES)
    with open(path, encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)
