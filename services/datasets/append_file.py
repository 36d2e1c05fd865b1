"""A durable file that one process appends to atomically while others may read it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from services.contracts.errors import StorageFull


class AppendFile:
    """Appends to a file, which is created if missing; a context manager that closes it.

    Nothing is buffered: appended data survive a crash of this process once `append` returns, and a
    crash of the machine once `sync` does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by __exit__
        self._end = self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def end(self) -> int:
        """The size in bytes."""
        return self._end

    def truncate(self, end: int) -> None:
        """Durably truncate the file to ``end`` bytes."""
        if end < self._end:
            self._file.truncate(end)
            self.sync()
            self._end = end

    def append(self, data: bytes | bytearray) -> int:
        """Write all of ``data`` or nothing; returns where it begins. Raises ``StorageFull``."""
        begin, rest = self._end, memoryview(data)
        with self._storage_errors():
            try:
                while rest:  # a disk that fills up accepts a partial write first
                    rest = rest[self._file.write(rest) :]
            except OSError:
                with suppress(OSError):  # the next writer truncates it
                    self._file.truncate(begin)
                raise
        self._end += len(data)
        return begin

    def sync(self) -> None:
        """Make everything appended survive a crash of the machine; raises ``StorageFull``."""
        with self._storage_errors():
            os.fsync(self._file.fileno())

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                message = f"the disk is full; {self._path.name} can no longer be written"
                raise StorageFull(message) from error
            raise
