"""The log of updates: per-token values that a training computed for its trajectories.

``updates.index`` has an entry for each trajectory that was trained on, written after its values in
``updates.values``; an incomplete last entry was cut by a kill, and is ignored.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from services.datasets.append_log import AppendFile
from services.rollouts.log.index import key_of

INDEX = "updates.index"
VALUES = "updates.values"

ENTRY = np.dtype(
    [
        ("key", "<u8"),  # of the trajectory's id
        ("step", "<u4"),
        ("tokens", "<u4"),  # 0 where the method computes no values
        ("offset", "<u8"),  # of its first token among those of all trajectories
    ]
)
COLUMNS = 3
"""Values per token: log-probability before the update, NaN if unknown, entropy, advantage."""
ADVANTAGE = 2
_TOKEN_BYTES = COLUMNS * 4

BLOCK = 1 << 16
"""Entries per read: a whole index can take much memory."""

Steps = npt.NDArray[np.uint32]
UpdatesStamp = tuple[int, int, int]
"""Detects a changed index: inode, size in bytes, modification time in nanoseconds."""
Entries = npt.NDArray[np.void]
Values = npt.NDArray[np.float32]
"""Values of tokens, (tokens, COLUMNS)."""


@dataclass(frozen=True)
class TrainedOn:
    """The step that trained on a trajectory, and the values of the tokens that the policy sampled,
    None if there are none."""

    step: int
    values: Values | None

    @property
    def advantage(self) -> float | None:
        """The mean advantage of the tokens that the policy sampled."""
        return None if self.values is None else float(self.values[:, ADVANTAGE].mean())


class UpdateLog:
    """Appends to a job's folder; a context manager. Entries of an earlier process are kept up to
    the step ``keep``."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        with ExitStack() as files:
            self._index = files.enter_context(AppendFile(folder / INDEX))
            self._values = files.enter_context(AppendFile(folder / VALUES))
            known = _read(folder)
            ends = (known["offset"] + known["tokens"]) * _TOKEN_BYTES
            is_kept = (known["step"] <= keep) & (ends <= self._values.end)
            count = len(known) if is_kept.all() else int(is_kept.argmin())
            self._index.truncate(count * ENTRY.itemsize)
            self._values.truncate(int(ends[count - 1]) if count else 0)
            self._files = files.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def append(self, step: int, ids: Sequence[str], values: Sequence[Values] | None) -> None:
        """Write what the update of a step computed for trajectories; raises ``StorageFull``."""
        given = values or [np.zeros((0, COLUMNS), np.float32)] * len(ids)
        entries = np.zeros(len(ids), ENTRY)
        for entry, trajectory_id, each in zip(entries, ids, given, strict=True):
            begin = self._values.append(np.ascontiguousarray(each, "<f4").tobytes())
            entry["key"], entry["step"] = key_of(trajectory_id), step
            entry["tokens"], entry["offset"] = len(each), begin // _TOKEN_BYTES
        self._index.append(entries.tobytes())


def find_update(folder: Path, trajectory_id: str) -> TrainedOn | None:
    """The update that trained on a trajectory; None if there is none."""
    return next(find_updates(folder, [trajectory_id]))


def find_updates(folder: Path, ids: Sequence[str]) -> Iterator[TrainedOn | None]:
    """The updates of several trajectories, lazily: their values can take megabytes."""
    keys = [key_of(each) for each in ids]
    wanted = set(keys)
    found: dict[int, np.void] = {}
    for entries in _blocks(folder, backward=True):
        of_block = entries[np.isin(entries["key"], np.array(list(wanted), np.uint64))]
        # The last entry of a key counts.
        found |= {int(entry["key"]): entry for entry in of_block}
        wanted -= found.keys()
        if not wanted:
            break
    for key in keys:
        yield _trained_on(folder, found[key]) if key in found else None


def _trained_on(folder: Path, entry: np.void) -> TrainedOn:
    step, tokens, offset = (int(entry[name]) for name in ("step", "tokens", "offset"))
    return TrainedOn(step, _values(folder, offset, tokens) if tokens else None)


def stamp_of_updates(folder: Path) -> UpdatesStamp | None:
    """The state of the index; None without one."""
    try:
        status = (folder / INDEX).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def steps_of(folder: Path, keys: npt.NDArray[np.uint64]) -> Steps:
    """The step that trained on each of these trajectories; 0 for none."""
    steps: Steps = np.zeros(len(keys), np.uint32)
    if not len(keys) or stamp_of_updates(folder) is None:
        return steps
    order = np.argsort(keys)
    known = keys[order]
    for entries in _blocks(folder):
        places = np.minimum(np.searchsorted(known, entries["key"]), len(known) - 1)
        is_known = known[places] == entries["key"]
        steps[order[places[is_known]]] = entries["step"][is_known]  # the last one of a key counts
    return steps


def _read(folder: Path) -> Entries:
    try:
        with open(folder / INDEX, "rb") as file:
            return np.fromfile(file, ENTRY, os.fstat(file.fileno()).st_size // ENTRY.itemsize)
    except FileNotFoundError:
        return np.empty(0, ENTRY)


def _blocks(folder: Path, *, backward: bool = False) -> Iterator[Entries]:
    """All entries in blocks, the first or the last one first."""
    try:
        with open(folder / INDEX, "rb") as file:
            count = os.fstat(file.fileno()).st_size // ENTRY.itemsize
            begins = range(0, count, BLOCK)
            for begin in reversed(begins) if backward else begins:
                file.seek(begin * ENTRY.itemsize)
                yield np.fromfile(file, ENTRY, min(BLOCK, count - begin))
    except FileNotFoundError:
        return


def _values(folder: Path, offset: int, tokens: int) -> Values | None:
    """None if a power failure or a resuming training took them."""
    with open(folder / VALUES, "rb") as file:
        file.seek(offset * _TOKEN_BYTES)
        read = np.fromfile(file, "<f4", tokens * COLUMNS)
    return read.reshape(tokens, COLUMNS) if len(read) == tokens * COLUMNS else None
