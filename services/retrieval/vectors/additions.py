"""Vectors added after the build: a log on disk and a table in memory."""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np

from services.retrieval.vectors.base import Neighbors, Numbers, Vectors, mask
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.files import sync, write_all, writing

_HEAD = struct.Struct("<III")
"""Record header: vector count, CRC-32 of the payload, CRC-32 of these two fields."""


@dataclass(frozen=True)
class Table:
    """Vectors by number; for a repeated number the last vector wins."""

    numbers: Numbers
    vectors: Vectors

    @classmethod
    def empty(cls, dimension: int) -> "Table":
        """A table without rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, dimension), dtype=np.float32))

    def concatenated(self, later: list["Table"]) -> "Table":
        """This table extended by ``later`` ones."""
        numbers = np.concatenate([self.numbers, *(table.numbers for table in later)])
        vectors = np.concatenate([self.vectors, *(table.vectors for table in later)])
        _, from_the_end = np.unique(numbers[::-1], return_index=True)
        if len(from_the_end) == len(numbers):
            return Table(numbers, vectors)
        kept = np.sort(len(numbers) - 1 - from_the_end)
        return Table(numbers[kept], vectors[kept])

    def search(
        self, queries: Vectors, k: int, allowed: Numbers | None, excluded: Numbers | None
    ) -> Neighbors:
        """The nearest allowed vectors; fewer than ``k`` when there are fewer."""
        passed = mask(self.numbers, allowed, excluded)
        numbers = self.numbers if passed is None else self.numbers[passed]
        vectors = self.vectors if passed is None else self.vectors[passed]
        k = min(k, len(numbers))
        if not k:
            nothing = (len(queries), 0)
            return Neighbors(np.empty(nothing, dtype=np.float32), np.empty(nothing, dtype=np.int64))
        scores, rows = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        return Neighbors(scores, numbers[rows])


class AddedLog:
    """Append-only log: one writing process at a time, any number of readers.

    A record is durable once `append` has returned. A torn record at the end, left by a kill, is
    ignored and overwritten.
    """

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._end = 0

    def read(self) -> list[Table]:
        """Records appended since the last call; raises VectorsUnusable."""
        try:
            with open(self._path, "rb") as file:
                return list(self._records(file.fileno()))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise VectorsUnusable(self._path, f"cannot be read: {error.strerror}") from error

    def append(self, table: Table) -> None:
        """Append a record; the caller has `read` all earlier ones. Raises StorageFull and keeps
        nothing."""
        payload = table.numbers.astype("<i8").tobytes() + table.vectors.astype("<f4").tobytes()
        begin = struct.pack("<II", len(table.numbers), zlib.crc32(payload))
        new = not self._path.exists()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, self._end)
            os.lseek(descriptor, self._end, os.SEEK_SET)
            try:
                with writing(self._path):
                    write_all(descriptor, begin + struct.pack("<I", zlib.crc32(begin)) + payload)
                    os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, self._end)
                raise
        finally:
            os.close(descriptor)
        if new:
            sync(self._path.parent)
        self._end += _HEAD.size + len(payload)

    def _records(self, descriptor: int) -> Iterator[Table]:
        size = os.fstat(descriptor).st_size
        while record := self._record(descriptor, size):
            self._end += _HEAD.size + len(record)
            count = len(record) // self._width
            yield Table(
                np.frombuffer(record, "<i8", count).astype(np.int64),
                np.frombuffer(record, "<f4", offset=8 * count)
                .reshape(count, self._dimension)
                .astype(np.float32),
            )

    def _record(self, descriptor: int, size: int) -> bytes:
        """The next record's payload; empty at the end or at a torn tail."""
        head = os.pread(descriptor, _HEAD.size, self._end)
        if len(head) < _HEAD.size:
            return b""
        count, checksum, own = _HEAD.unpack(head)
        if zlib.crc32(head[:8]) != own:
            # After a power loss the tail may have its length but only zeros.
            if any(os.pread(descriptor, 1 << 20, self._end)):
                raise self._damaged()
            return b""
        length = count * self._width
        begin = self._end + _HEAD.size
        if begin + length > size:
            return b""
        payload = os.pread(descriptor, length, begin)
        if zlib.crc32(payload) == checksum:
            return payload
        if begin + length < size:
            raise self._damaged()
        return b""

    @property
    def _width(self) -> int:
        return 8 + 4 * self._dimension

    def _damaged(self) -> VectorsUnusable:
        return VectorsUnusable(self._path, f"is damaged at byte {self._end:,}")
