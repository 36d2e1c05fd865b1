"""A durable JSON Lines file of records: one process appends, others may read meanwhile.

One JSON object per line, UTF-8, each terminated by a newline. Bytes after the last newline are a
line that is still being written or was torn by a kill; readers ignore them and the next writer
truncates them.
"""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Generic, Self, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.errors import StorageFull, TemperError

SYNC_SECONDS = 0.25
_BLOCK = 1024 * 1024

Record = TypeVar("Record", bound=BaseModel)


class UnreadableRecord(TemperError):
    """A record of a file is damaged; the message names the file and the position."""

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


class AppendLog(Generic[Record]):
    """Appends records to a file, which is created if missing.

    Opening truncates a torn last line or, with ``end``, everything after that offset. A record
    survives a crash of this process once `append` returns, and a crash of the machine once it is
    synced: within ``SYNC_SECONDS`` plus one fsync while `sync_forever` runs.
    """

    def __init__(self, path: Path, *, end: int | None = None) -> None:
        self._path = path
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by __exit__
        try:
            self._end = _truncate(self._file, path, end)
        except BaseException:
            self._file.close()
            raise
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
                if error is None:  # otherwise the error that ended the block says more
                    raise

    @property
    def end(self) -> int:
        """Total bytes of complete lines."""
        return self._end

    def append(self, record: Record) -> LineSpan:
        """Write the whole record or nothing; raises ``StorageFull`` on a full disk."""
        line = record.model_dump_json().encode() + b"\n"
        rest = memoryview(line)
        with _storage_errors(self._path):
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError:
                with suppress(OSError):  # the next writer truncates it
                    self._file.truncate(self._end)
                raise
        self._synced = False
        span = LineSpan(self._end, len(line))
        self._end = span.end
        return span

    def sync(self) -> None:
        """Make all appended records survive a crash of the machine."""
        with _storage_errors(self._path):
            os.fsync(self._file.fileno())

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
        problem = error.errors(include_input=False, include_url=False)[0]
        raise UnreadableRecord(
            f"{path.name}: the line at byte {span.offset} is not a {kind.__name__}:"
            f" {'.'.join(map(str, problem['loc']))} {problem['msg']}"
        ) from None


def _truncate(file: BinaryIO, path: Path, end: int | None) -> int:
    """Truncate after the last complete line, or at ``end``; returns the size."""
    size = file.seek(0, os.SEEK_END)
    keep = _last_line_end(file, size)
    if end is not None:
        if end > keep or _last_line_end(file, end) != end:
            raise UnreadableRecord(f"{path.name}: no line ends at byte {end}")
        keep = end
    if keep < size:
        file.truncate(keep)
        os.fsync(file.fileno())
    return keep


def _last_line_end(file: BinaryIO, before: int) -> int:
    """Where the last line that is complete at offset ``before`` ends."""
    while before:
        begin = max(0, before - _BLOCK)
        file.seek(begin)
        newline = file.read(before - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        before = begin
    return 0


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"the disk is full; {path.name} can no longer be written") from error
        raise
