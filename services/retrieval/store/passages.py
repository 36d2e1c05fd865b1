"""The passages of an index: their JSON as it was given, found by their numbers.

``documents.jsonl`` has one passage a line, ``places`` for each number where its line begins, how
long it is and its checksum. Both only grow, so that a number is never given twice and what a
reader has seen stays where it was.
"""

import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from services.retrieval.store.errors import IndexUnusable

_PLACE = struct.Struct("<QII")  # where it begins, bytes without the line break, crc32


class Passages:
    """The passages of a folder as they were when it was opened. Safe to use from threads.

    They are mapped rather than read: reading would let go of Python's lock for each passage, and
    among busy threads getting it back takes longer than everything else.
    """

    def __init__(self, folder: Path) -> None:
        """Open them; raises IndexUnusable."""
        self._path = folder / "documents.jsonl"
        try:
            self._documents = _mapped(self._path)
            self._places = _mapped(folder / "places")
        except OSError as error:
            raise IndexUnusable(f"{error.filename}: {error.strerror}") from error
        self.rows = len(self._places) // _PLACE.size

    def check(self, built: int) -> None:
        """Raise IndexUnusable unless the ``built`` first ones are there, by trying two of them."""
        if self.rows < built:
            raise IndexUnusable(f"{self._path.parent} has {self.rows} passages of {built}")
        for number in (0, built - 1) if built else ():
            self.document(number)

    def document(self, number: int) -> bytes:
        """The JSON of a passage; raises IndexUnusable when it is damaged, IndexError beyond."""
        if not 0 <= number < self.rows:
            raise IndexError(number)
        start, size, checksum = _PLACE.unpack_from(self._places, number * _PLACE.size)
        content = self._documents[start : start + size]
        if len(content) != size or zlib.crc32(content) != checksum:
            raise IndexUnusable(f"{self._path}: passage {number} at byte {start} is damaged")
        return content


class PassageWriter:
    """Appends passages to a folder. One writer at a time; a half-written tail is cut off."""

    def __init__(self, folder: Path, *, rows: int | None = None) -> None:
        """Go on after what is there, or after its first ``rows`` passages."""
        folder.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._documents = os.open(folder / "documents.jsonl", flags, 0o644)
        self._places = os.open(folder / "places", flags, 0o644)
        complete = os.fstat(self._places).st_size // _PLACE.size
        self.rows = complete if rows is None else min(rows, complete)
        self._cut(self._end() if rows is not None else os.fstat(self._documents).st_size)

    def append(self, documents: Sequence[bytes]) -> range:
        """Add passages, durable after `sync`; their numbers. After an OSError none was added."""
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
        """Make durable what was added."""
        os.fsync(self._documents)
        os.fsync(self._places)

    def close(self) -> None:
        """Stop; what was added after the last `sync` may be kept or lost."""
        os.close(self._documents)
        os.close(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _end(self) -> int:
        """Where the line of the last passage ends."""
        if not self.rows:
            return 0
        last = os.pread(self._places, _PLACE.size, (self.rows - 1) * _PLACE.size)
        start, size, _ = _PLACE.unpack(last)
        return int(start + size + 1)

    def _cut(self, documents_end: int) -> None:
        """Forget whatever lies behind the passages that count, and go on from there."""
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
