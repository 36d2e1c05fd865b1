"""A durable file, and one of JSON Lines of records: one process appends while others may read.

One JSON object per line, UTF-8, each terminated by a newline. Bytes after the last newline are a
line that is still being written or was torn by a kill; readers ignore them and the next writer
truncates them.
"""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.errors import StorageFull, TemperError
from services.contracts.validation import first_fault
from services.parsing.foreign_json import json_line

SYNC_SECONDS = 0.25
_BLOCK = 1024 * 1024

Record = TypeVar("Record", bound=BaseModel)


class UnreadableRecord(TemperError):
    """A damaged record; the message names the file and the position."""

    code = "unreadable_record"


@dataclass(frozen=True)
class LineSpan:
    """The byte range of one line, including its newline."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset of the next line."""
        return self.offset + self.length


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


class AppendLog(Generic[Record]):
    """Appends records to a file, which is created if missing.

    Opening truncates a torn last line or, with ``end``, everything after that offset. A record
    survives a crash of this process once `append` returns, and a crash of the machine once it is
    synced: within ``SYNC_SECONDS`` plus one fsync while `sync_forever` runs.
    """

    def __init__(self, path: Path, *, end: int | None = None) -> None:
        with ExitStack() as stack:
            self._file = stack.enter_context(AppendFile(path))
            self._file.truncate(_end_of_lines(path, self._file.end, end))
            stack.pop_all()
        self._synced = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file:
            try:
                self.sync()
            except (OSError, StorageFull):
                if error is None:  # otherwise the block's own error is more informative
                    raise

    @property
    def end(self) -> int:
        """Total bytes of complete lines."""
        return self._file.end

    def append(self, record: Record) -> LineSpan:
        """Write the whole record or nothing; raises ``StorageFull`` on a full disk.

        Text that UTF-8 cannot encode is stored with U+FFFD in its place.
        """
        line = json_line(record)
        span = LineSpan(self._file.append(line), len(line))
        self._synced = False
        return span

    def sync(self) -> None:
        """Make all appended records survive a crash of the machine."""
        self._file.sync()

    async def sync_forever(self) -> None:
        """Sync appended records periodically until cancelled."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            if not self._synced:
                self._synced = True
                await asyncio.to_thread(self.sync)


def read_records(
    path: Path, kind: type[Record], start: int = 0
) -> Iterator[tuple[LineSpan, Record]]:
    """The records of a file in order, from the byte offset ``start``; none if there is no file.

    A last line without a newline is skipped. Raises `UnreadableRecord` at a damaged line.
    """
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            span = LineSpan(start, len(line))
            yield span, _decode(line, kind, path, span)
            start = span.end


def read_record(path: Path, kind: type[Record], span: LineSpan) -> Record:
    """The record at ``span``; raises `UnreadableRecord` if there is none."""
    with open(path, "rb") as file:
        file.seek(span.offset)
        return _decode(file.read(span.length), kind, path, span)


def _decode(line: bytes, kind: type[Record], path: Path, span: LineSpan) -> Record:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise UnreadableRecord(
            f"{path.name}: the line at byte {span.offset} is not a {kind.__name__}:"
            f" {first_fault(error).sentence()}"
        ) from None


def _end_of_lines(path: Path, size: int, end: int | None) -> int:
    """Where the last complete line ends, or ``end`` if a line ends there."""
    last = _last_line_end(path, size)
    if end is None:
        return last
    if end > last or _last_line_end(path, end) != end:
        raise UnreadableRecord(f"{path.name}: no line ends at byte {end}")
    return end


def _last_line_end(path: Path, before: int) -> int:
    """Where the last line that is complete at offset ``before`` ends."""
    with open(path, "rb") as file:
        while before:
            begin = max(0, before - _BLOCK)
            file.seek(begin)
            newline = file.read(before - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            before = begin
    return 0
