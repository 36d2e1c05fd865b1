"""The trajectories of a job on disk: ``trajectories.jsonl``, and its index beside it.

The index has one entry per line of the file, written after it; an incomplete last entry was cut by
a kill or is still being written, and is ignored. If a trajectory id occurs twice, its last line
wins.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Self

from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.datasets.append_log import (
    AppendFile,
    AppendLog,
    LineSpan,
    UnreadableRecord,
    read_record,
    read_records,
)
from services.rollouts.log.index import (
    ENTRY,
    INDEX,
    TRAJECTORIES,
    Entries,
    entry_of,
    read_entries,
)
from services.rollouts.log.listing import Listing
from services.rollouts.log.listings import GrowingListing


class IndexedLog:
    """Appends trajectories to a job's folder; a context manager.

    Files left by an earlier process are repaired first; with ``keep`` they are truncated to that
    many lines. A trajectory survives a crash of the process once `append` returns, and of the
    machine once synced.
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
            self._index = files.enter_context(AppendFile(index))
            self._index.truncate(known.nbytes)
            self._index.append(missing)
            self._log = files.enter_context(AppendLog[Trajectory](lines, end=end))
            self._files = files.pop_all()
        self._count = len(known) + len(missing) // ENTRY.itemsize

    @property
    def count(self) -> int:
        """The number of lines."""
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._files.__exit__(*error)

    def append(self, trajectory: Trajectory) -> None:
        """Write one trajectory; raises ``StorageFull`` if the disk is full."""
        self._index.append(entry_of(trajectory, self._log.append(trajectory)))
        self._count += 1

    def keep(self, trajectory: Trajectory) -> Trajectory:
        """Append a trajectory, or a failure record if JSON cannot represent it; returns the one
        appended."""
        try:
            self.append(trajectory)
        except ValueError as error:
            trajectory = _unstorable(trajectory, str(error))
            self.append(trajectory)
        return trajectory

    def sync(self) -> None:
        """Make appended lines durable; their index entries can be rebuilt."""
        self._log.sync()

    async def sync_forever(self) -> None:
        """Sync periodically until cancelled."""
        await self._log.sync_forever()


def _unstorable(trajectory: Trajectory, reason: str) -> Trajectory:
    """The failure record of a trajectory that JSON cannot represent."""
    return Trajectory(
        id=trajectory.id,
        prompt_index=trajectory.prompt_index,
        sample_index=trajectory.sample_index,
        messages=trajectory.messages,
        prompt_token_ids=trajectory.prompt_token_ids,
        finish_reason=FinishReason.INTERNAL_ERROR,
        error=f"the record cannot be stored: {reason.encode(errors='replace').decode()}",
        created_at=trajectory.created_at,
        seconds=trajectory.seconds,
    )


def open_listing(folder: Path) -> Listing:
    """The current trajectories of a job, also while it runs; empty without files."""
    return GrowingListing(folder).read()


def read_places(folder: Path, places: Iterable[LineSpan]) -> Iterator[Trajectory]:
    """The trajectories at these spans; raises `UnreadableRecord`."""
    for place in places:
        yield read_record(folder / TRAJECTORIES, Trajectory, place)


def read_indexed(folder: Path) -> Iterator[Trajectory]:
    """All trajectories of a job, in order of completion."""
    places = iter(open_listing(folder).places())
    wanted = next(places, None)
    for place, trajectory in read_records(folder / TRAJECTORIES, Trajectory):
        if wanted is None:
            return
        if place == wanted:
            yield trajectory
            wanted = next(places, None)


def _indexed(lines: Path, index: Path) -> Entries:
    """The longest prefix of contiguous entries whose last line is readable."""
    entries = _within(lines, read_entries(index))
    ends = (entries["offset"] + entries["length"]).tolist()
    starts = entries["offset"].tolist()
    count = next(
        (n for n, start in enumerate(starts) if start != (ends[n - 1] if n else 0)), len(starts)
    )
    # Unsynced lines may be holes after a power failure.
    while count and not _is_readable(
        lines, LineSpan(starts[count - 1], ends[count - 1] - starts[count - 1])
    ):
        count -= 1
    return entries[:count]


def _is_readable(lines: Path, place: LineSpan) -> bool:
    try:
        read_record(lines, Trajectory, place)
    except UnreadableRecord:
        return False
    return True


def _unindexed(lines: Path, start: int, most: int | None) -> Iterator[tuple[LineSpan, Trajectory]]:
    """The lines from ``start`` on, up to the first damaged one."""
    try:
        yield from islice(read_records(lines, Trajectory, start), most)
    except UnreadableRecord:
        return


def _within(lines: Path, entries: Entries) -> Entries:
    """The entries whose lines are inside the file."""
    size = lines.stat().st_size if lines.exists() else 0
    is_inside = entries["offset"] + entries["length"] <= size
    inside: Entries = entries if is_inside.all() else entries[is_inside]  # spare a copy
    return inside


def _end(entries: Entries) -> int:
    return int(entries[-1]["offset"] + entries[-1]["length"]) if len(entries) else 0
