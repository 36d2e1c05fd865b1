"""Detecting a file's container from its content, never from its name."""

import csv
import json
import re
from enum import StrEnum
from pathlib import Path

from services.datasets.record import UnreadableFile, shown

_HEAD_BYTES = 64 * 1024
_UTF8_BOM = b"\xef\xbb\xbf"
_PARQUET_MAGIC = b"PAR1"
_GZIP_MAGIC = b"\x1f\x8b"
_UNKNOWN = "the file is neither JSONL, a JSON array, Parquet nor CSV"

_FOREIGN = {
    b"\x28\xb5\x2f\xfd": "zstd-compressed; upload it uncompressed",
    b"PK\x03\x04": "a ZIP archive or a spreadsheet; upload JSONL, JSON or Parquet",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"ARROW1": "an Arrow file; save it as Parquet",
}


class Container(StrEnum):
    """How the rows are stored."""

    JSONL = "jsonl"  # one JSON value per line
    JSON = "json"  # one array that holds the rows
    PARQUET = "parquet"
    GZIP = "jsonl.gz"  # JSONL, compressed
    CSV = "csv"  # a table whose first line names the columns


def detect_container(path: Path) -> Container:
    """Detect the container of a file.

    Raises UnreadableFile for an empty file, for one JSON object spread over lines, and for any
    other content.
    """
    head = _head(path)
    if head.startswith(_PARQUET_MAGIC):
        return Container.PARQUET
    if head.startswith(_GZIP_MAGIC):
        return Container.GZIP
    for signature, meaning in _FOREIGN.items():
        if head.startswith(signature):
            raise UnreadableFile(f"the file is {meaning}")
    text = head.removeprefix(_UTF8_BOM).lstrip(b" \t\r\n")
    if not text:
        raise UnreadableFile("the file is empty" if len(head) < _HEAD_BYTES else _UNKNOWN)
    if text.startswith(b"["):
        return Container.JSON
    if not text.startswith(b"{") and is_table(text):
        return Container.CSV
    if not text.startswith(b"{"):
        beginning = shown(text[:40].decode("utf-8", "replace"))
        raise UnreadableFile(f"{_UNKNOWN}: it begins with {beginning}")
    if _is_spread_object(text):
        raise UnreadableFile(
            "the file is one JSON object spread over lines; write each row on one line (JSONL) "
            "or put the rows into an array (JSON)"
        )
    return Container.JSONL


def is_table(text: bytes) -> bool:
    """Whether a text begins with a line of names, separated by commas, as CSV does."""
    try:
        (names,) = csv.reader([text.partition(b"\n")[0].decode()], strict=True)
    except (csv.Error, UnicodeDecodeError, ValueError):
        return False
    usable = all(_COLUMN.fullmatch(name.strip()) for name in names)
    return usable and len(set(names)) == len(names) > (names[0].strip() not in _LONE_COLUMNS)


_COLUMN = re.compile(r"[A-Za-z_][\w. -]{0,63}")
_LONE_COLUMNS = ("text", "messages", "conversations")
"""Columns that rows may have alone."""


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise UnreadableFile(f"the file cannot be read: {error.strerror}") from error


def _is_spread_object(text: bytes) -> bool:
    """Whether an object is still open after the first line and the second line does not start
    another."""
    first, _, rest = text.partition(b"\n")
    second = rest.lstrip()
    if not second or second.startswith(b"{"):
        return False
    try:
        json.loads(first.decode("utf-8"))
    except json.JSONDecodeError as error:
        return not error.doc[error.pos :].strip()
    except (ValueError, RecursionError):
        return False
    return False
