"""The trajectories of a job on disk: ``trajectories.jsonl``, and its index beside it.

The index has an entry for each line of the file, written after it; a last entry that is not whole
was torn by a kill, or is still being written, and does not count. Where the id of a trajectory
occurs again, its last line counts.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from services.contracts.errors import StorageFull
from services.contracts.trajectories import Trajectory
from services.datasets.append_log import (
    AppendLog,
    Span,
    UnreadableRecord,
    read_record,
    read_records,
)
from services.rollouts.log.index import ENTRY, Entries, Listing, entry_of, read_entries

TRAJECTORIES = "trajectories.jsonl"
INDEX = "trajectories.index"


class IndexedLog:
    """Appends trajectories to the folder of a job, in a ``with``.

    What an earlier process left is made whole first; with ``keep``, all but its first lines are
    cut off. A trajectory survives the end of this process once `append` has returned, and the
    end of the machine once it is synced.
    """

    def __init__(self, folder: Path, *, keep: int | None = None) -> None:
        lines, index = folder / TRAJECTORIES, folder / INDEX
        known = _indexed(lines, index)[:keep]
        end = _end(known)
        missing = bytearray()
        for place, trajectory in _unindexed(
            lines, end, None if keep is None else keep - len(known)
        ):
            missing += entry_of(trajectory, place)
            end = place.end
        with ExitStack() as files:
            self._index = files.enter_context(open(index, "ab", buffering=0))
            self._index.truncate(known.nbytes)
            self._index.write(missing)
            self._log = files.enter_context(AppendLog[Trajectory](lines, end=end))
            self._files = files.pop_all()
        self._count = len(known) + len(missing) // ENTRY.itemsize

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, traceback)

    def append(self, trajectory: Trajectory) -> None:
        """Write one trajectory; raises ``StorageFull`` when the disk holds no more."""
        place = self._log.append(trajectory)
        try:
            self._index.write(entry_of(trajectory, place))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("the disk is full; trajectories cannot be indexed") from error
            raise
        self._count += 1

    def sync(self) -> None:
        """Make what was appended survive the end of the machine; its entries are made anew."""
        self._log.sync()

    async def sync_forever(self) -> None:
        """Sync what was appended, again and again, until cancelled."""
        await self._log.sync_forever()


def open_listing(folder: Path) -> Listing:
    """The trajectories of a job as they stand, also while it appends; none without files."""
    return Listing(_within(folder / TRAJECTORIES, read_entries(folder / INDEX)))


def read_places(folder: Path, places: Iterable[Span]) -> Iterator[Trajectory]:
    """The trajectories of a job at these places; raises `UnreadableRecord`."""
    for place in places:
        yield read_record(folder / TRAJECTORIES, Trajectory, place)


def read_indexed(folder: Path) -> Iterator[Trajectory]:
    """All trajectories of a job, in the order in which they ended."""
    places = iter(open_listing(folder).places())
    wanted = next(places, None)
    for place, trajectory in read_records(folder / TRAJECTORIES, Trajectory):
        if wanted is None:
            return
        if place == wanted:
            yield trajectory
            wanted = next(places, None)


def _indexed(lines: Path, index: Path) -> Entries:
    """The first entries, as far as they follow each other and the last one's line is there."""
    entries = _within(lines, read_entries(index))
    ends = (entries["offset"] + entries["length"]).tolist()
    starts = entries["offset"].tolist()
    count = next(
        (n for n, start in enumerate(starts) if start != (ends[n - 1] if n else 0)), len(starts)
    )
    # Lines that were not synced may be holes behind a power cut.
    while count and not _is_readable(
        lines, Span(starts[count - 1], ends[count - 1] - starts[count - 1])
    ):
        count -= 1
    return entries[:count]


def _is_readable(lines: Path, place: Span) -> bool:
    try:
        read_record(lines, Trajectory, place)
    except UnreadableRecord:
        return False
    return True


def _unindexed(lines: Path, start: int, most: int | None) -> Iterator[tuple[Span, Trajectory]]:
    """The lines from ``start`` on, up to the first that is torn or damaged."""
    try:
        yield from islice(read_records(lines, Trajectory, start), most)
    except UnreadableRecord:
        return


def _within(lines: Path, entries: Entries) -> Entries:
    """The entries whose lines lie within the file."""
    size = lines.stat().st_size if lines.exists() else 0
    inside: Entries = entries[entries["offset"] + entries["length"] <= size]
    return inside


def _end(entries: Entries) -> int:
    return int(entries[-1]["offset"] + entries[-1]["length"]) if len(entries) else 0
