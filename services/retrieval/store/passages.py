"""The passage store: JSON documents by number.

``documents.jsonl`` has one passage per line; ``places`` has offset, length and CRC-32 of each. Both
only grow, so numbers are never reused and offsets stay valid for readers.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from services.retrieval.store.errors import IndexUnusable

_PLACE = struct.Struct("<QII")  # offset, length without the newline, crc32


class Passages:
    """The passages of a folder at the time it was opened; thread-safe.

    Memory-mapped rather than read: reading releases the GIL per passage, and re-acquiring it among
    busy threads dominates.
    """

    def __init__(self, folder: Path) -> None:
        """Open; raises IndexUnusable."""
        self._path = folder / "documents.jsonl"
        try:
            self._documents = _mapped(self._path)
            self._places = _mapped(folder / "places")
        except OSError as error:
            raise IndexUnusable(f"{error.filename}: {error.strerror}") from error
        self.rows = len(self._places) // _PLACE.size

    def check(self, built: int) -> None:
        """Raise IndexUnusable unless ``built`` passages exist; verifies the first and the last."""
        if self.rows < built:
            raise IndexUnusable(f"{self._path.parent} has {self.rows} passages of {built}")
        for number in (0, built - 1) if built else ():
            self.document(number)

    def document(self, number: int) -> bytes:
        """The JSON of a passage; raises IndexUnusable when damaged, IndexError when out of
        range."""
        if not 0 <= number < self.rows:
            raise IndexError(number)
        start, size, checksum = _PLACE.unpack_from(self._places, number * _PLACE.size)
        content = self._documents[start : start + size]
        if not size or len(content) != size or zlib.crc32(content) != checksum:
            raise IndexUnusable(f"{self._path}: passage {number} at byte {start} is damaged")
        return content


class PassageWriter:
    """Appends passages; one writer at a time. A torn tail is cut off on open."""

    def __init__(self, folder: Path, *, rows: int | None = None) -> None:
        """Continue after the existing passages, or after the first ``rows`` of them."""
        folder.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._documents = os.open(folder / "documents.jsonl", flags, 0o644)
        self._places = os.open(folder / "places", flags, 0o644)
        complete = os.fstat(self._places).st_size // _PLACE.size
        self.rows = complete if rows is None else min(rows, complete)
        self._cut(self._end() if rows is not None else os.fstat(self._documents).st_size)

    def append(self, documents: Sequence[bytes]) -> range:
        """Append passages and return their numbers; durable after `sync`. After an OSError none was
        added."""
        end = os.lseek(self._documents, 0, os.SEEK_END)
        places = bytearray()
        start = end
        for document in documents:
            places += _PLACE.pack(start, len(document), zlib.crc32(document))
            start += len(document) + 1
        try:
            _write(self._documents, b"".join(part for one in documents for part in (one, b"\n")))
            _write(self._places, places)
        except OSError:
            self._cut(end)
            raise
        self.rows += len(documents)
        return range(self.rows - len(documents), self.rows)

    def sync(self) -> None:
        """Make appended passages durable."""
        os.fsync(self._documents)
        os.fsync(self._places)

    def close(self) -> None:
        """Close; passages appended since `sync` may be lost."""
        os.close(self._documents)
        os.close(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self) -> int:
        """End offset of the last passage's line."""
        if not self.rows:
            return 0
        last = os.pread(self._places, _PLACE.size, (self.rows - 1) * _PLACE.size)
        start, size, _ = _PLACE.unpack(last)
        return int(start + size + 1)

    def _cut(self, documents_end: int) -> None:
        """Truncate everything after the valid passages."""
        os.ftruncate(self._documents, documents_end)
        os.ftruncate(self._places, self.rows * _PLACE.size)
        os.lseek(self._places, 0, os.SEEK_END)


def _write(descriptor: int, content: bytes | bytearray) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _mapped(path: Path) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
