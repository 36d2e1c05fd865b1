"""The trajectories of a job as lines of a file that kills cannot damage."""

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from pydantic import ValidationError

from services.contracts.errors import StorageFull, TemperError
from services.contracts.trajectories import Trajectory

SYNC_SECONDS = 0.25
_BLOCK = 1024 * 1024


class UnreadableTrajectory(TemperError):
    """A line of a trajectory file is damaged; the message names file and place."""

    code = "unreadable_trajectory"


@dataclass(frozen=True)
class Place:
    """Where the line of a trajectory is, in bytes; the newline counts."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + self.length


class TrajectoryLog:
    """Appends trajectories to a file, which is made where there is none.

    Opening cuts off a torn last line, or with ``end`` all that was written behind that place.
    A trajectory survives the end of this process once `append` has returned, and the end of the
    machine once it is synced: while `sync_forever` runs, within ``SYNC_SECONDS`` and one fsync.
    """

    def __init__(self, path: Path, *, end: int | None = None) -> None:
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by __exit__
        try:
            self._end = _cut(self._file, path, end)
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
                if error is None:  # otherwise what ended the block tells more
                    raise

    @property
    def end(self) -> int:
        """Bytes of all whole lines."""
        return self._end

    def append(self, trajectory: Trajectory) -> Place:
        """Write a trajectory, or nothing; raises ``StorageFull`` when the disk holds no more."""
        line = trajectory.model_dump_json().encode() + b"\n"
        rest = memoryview(line)
        with _full_disk_named():
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError:
                with suppress(OSError):  # the next attempt cuts it off
                    self._file.truncate(self._end)
                raise
        self._synced = False
        place = Place(self._end, len(line))
        self._end = place.end
        return place

    def sync(self) -> None:
        """Make what was appended survive the end of the machine."""
        with _full_disk_named():
            os.fsync(self._file.fileno())

    async def sync_forever(self) -> None:
        """Sync what was appended, again and again, until cancelled."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            if not self._synced:
                self._synced = True
                await asyncio.to_thread(self.sync)


def read_trajectories(path: Path, start: int = 0) -> Iterator[tuple[Place, Trajectory]]:
    """The trajectories of a file from the byte ``start`` on, in their order.

    A last line without a newline is left out; there may be no file. Raises
    `UnreadableTrajectory` at a damaged line.
    """
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            place = Place(start, len(line))
            yield place, _decoded(line, path, place)
            start = place.end


def read_at(path: Path, place: Place) -> Trajectory:
    """The trajectory at a place; raises `UnreadableTrajectory` where there is none."""
    with open(path, "rb") as file:
        file.seek(place.offset)
        return _decoded(file.read(place.length), path, place)


def _decoded(line: bytes, path: Path, place: Place) -> Trajectory:
    try:
        return Trajectory.model_validate_json(line)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        raise UnreadableTrajectory(
            f"{path.name}: the line at byte {place.offset} is no trajectory:"
            f" {'.'.join(map(str, problem['loc']))} {problem['msg']}"
        ) from None


def _cut(file: BinaryIO, path: Path, end: int | None) -> int:
    """Cut the file behind its last whole line, or at ``end``; returns its size."""
    size = file.seek(0, os.SEEK_END)
    keep = _last_line_end(file, size)
    if end is not None:
        if end > keep or _last_line_end(file, end) != end:
            raise UnreadableTrajectory(f"{path.name}: no line ends at byte {end}")
        keep = end
    if keep < size:
        file.truncate(keep)
        os.fsync(file.fileno())
    return keep


def _last_line_end(file: BinaryIO, before: int) -> int:
    """Where the last line that is whole at ``before`` ends."""
    while before:
        begin = max(0, before - _BLOCK)
        file.seek(begin)
        newline = file.read(before - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        before = begin
    return 0


@contextmanager
def _full_disk_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("the disk is full; trajectories can no longer be written") from error
        raise
