"""The index beside a file of trajectories: filters, orders and pages without reading it."""

import math
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts import TrajectoryOrder
from services.contracts.trajectories import FinishReason, Trajectory
from services.datasets.append_log import LineSpan

ENTRY = np.dtype(
    [
        ("offset", "<u8"),  # of its line in the file of trajectories
        ("length", "<u4"),  # of its line, the newline included
        ("errors", "<u4"),
        ("key", "<u8"),  # of its id
        ("prompt", "<i8"),
        ("sample", "<i8"),
        ("reward", "<f8"),  # NaN without one
        ("tokens", "<u4"),  # of the response
        ("calls", "<u4"),
        ("finish", "S24"),
    ]
)
"""The layout on disk; entries have a fixed size."""

Entries = npt.NDArray[np.void]


def entry_of(trajectory: Trajectory, place: LineSpan) -> bytes:
    """The entry of a trajectory whose line is at ``place``."""
    fields = (
        place.offset,
        place.length,
        errors_of(trajectory),
        key_of(trajectory.id),
        trajectory.prompt_index,
        trajectory.sample_index,
        math.nan if trajectory.reward is None else trajectory.reward,
        trajectory.response_tokens,
        trajectory.tool_calls,
        trajectory.finish_reason.value.encode(),
    )
    return np.array(fields, ENTRY).tobytes()


def errors_of(trajectory: Trajectory) -> int:
    """Failed calls, malformed calls, a failed reward, and the rollout's own failure."""
    return (
        trajectory.failed_calls
        + sum(len(turn.malformed) for turn in trajectory.turns)
        + (trajectory.reward_error is not None)
        + trajectory.finish_reason.is_failure
    )


def key_of(trajectory_id: str) -> int:
    """A 64-bit hash of an id; collisions are rare, and readers compare the id."""
    return int.from_bytes(blake2b(trajectory_id.encode(), digest_size=8).digest(), "little")


Positions = npt.NDArray[np.intp]
TrajectoryKeys = npt.NDArray[np.uint64]
"""Hashes of ids, as `key_of` makes them."""


@dataclass(frozen=True)
class TrajectoryFilter:
    """Which trajectories to list; None means any. Bounds are inclusive."""

    min_reward: float | None = None
    max_reward: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    has_errors: bool | None = None
    finish_reason: FinishReason | None = None
    prompt_index: int | None = None
    keys: TrajectoryKeys | None = None


class Listing:
    """A snapshot of a job's trajectories.

    A trajectory that was written twice is listed once, with its last line.
    """

    def __init__(self, entries: Entries) -> None:
        self._entries = _latest(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def places(self) -> list[LineSpan]:
        """The spans of all trajectories, in order of completion."""
        return [self._place(position) for position in range(len(self._entries))]

    def place_of(self, trajectory_id: str) -> LineSpan | None:
        """The span of one trajectory, None if the id is unknown."""
        position = self._position(trajectory_id)
        return None if position is None else self._place(position)

    def page(
        self,
        where: TrajectoryFilter,
        order: TrajectoryOrder,
        *,
        descending: bool,
        after: str | None,
        limit: int,
    ) -> tuple[list[LineSpan], bool]:
        """Up to ``limit`` spans after the trajectory ``after``, and whether there are more.

        Ties are in order of completion, reversed if ``descending``. Raises `LookupError` if
        ``after`` is unknown.
        """
        matching = np.flatnonzero(self._matches(where))
        if descending:
            matching = matching[::-1]
        values = self._values(order)
        keys = None if values is None else (-values if descending else values)
        if after is not None:
            position = self._position(after)
            if position is None:
                raise LookupError(after)
            matching = _behind(matching, position, keys, descending=descending)
        found = _first(matching, keys, limit + 1)
        return [self._place(int(each)) for each in found[:limit]], len(found) > limit

    def rewards(self, where: TrajectoryFilter) -> tuple[TrajectoryKeys, npt.NDArray[np.float64]]:
        """The keys of the matching trajectories, and their rewards, NaN where there is none."""
        matching = self._entries[self._matches(where)]
        return matching["key"], matching["reward"]

    def _position(self, trajectory_id: str) -> int | None:
        found = np.flatnonzero(self._entries["key"] == key_of(trajectory_id))
        return int(found[-1]) if len(found) else None

    def _place(self, position: int) -> LineSpan:
        entry = self._entries[position]
        return LineSpan(int(entry["offset"]), int(entry["length"]))

    def _values(self, order: TrajectoryOrder) -> npt.NDArray[np.float64] | None:
        """What trajectories are ordered by; None for their completion."""
        match order:
            case TrajectoryOrder.FINISHED:
                return None
            case TrajectoryOrder.REWARD:
                return self._entries["reward"]
            case TrajectoryOrder.LENGTH:
                return self._entries["tokens"].astype(np.float64)
            case TrajectoryOrder.ERRORS:
                return self._entries["errors"].astype(np.float64)

    def _matches(self, where: TrajectoryFilter) -> npt.NDArray[np.bool_]:
        entries = self._entries
        matches = np.ones(len(entries), np.bool_)
        if where.min_reward is not None:
            matches &= entries["reward"] >= where.min_reward  # false for NaN
        if where.max_reward is not None:
            matches &= entries["reward"] <= where.max_reward
        if where.min_length is not None:
            matches &= entries["tokens"] >= where.min_length
        if where.max_length is not None:
            matches &= entries["tokens"] <= where.max_length
        if where.has_errors is not None:
            matches &= (entries["errors"] > 0) == where.has_errors
        if where.finish_reason is not None:
            matches &= entries["finish"] == where.finish_reason.value.encode()
        if where.prompt_index is not None:
            matches &= entries["prompt"] == where.prompt_index
        if where.keys is not None:
            matches &= np.isin(entries["key"], where.keys)
        return matches


Keys = npt.NDArray[np.float64]
"""Numbers by which positions are ordered, the least first and NaN last."""


def _behind(positions: Positions, after: int, keys: Keys | None, *, descending: bool) -> Positions:
    """Those of ``positions`` that come behind the position ``after``, ties in their order."""
    is_later = positions < after if descending else positions > after
    if keys is None:
        return positions[is_later]
    here, key = keys[positions], keys[after]
    if np.isnan(key):
        is_behind = np.isnan(here) & is_later
    else:
        is_behind = np.isnan(here) | (here > key) | ((here == key) & is_later)
    behind: Positions = positions[is_behind]
    return behind


def _first(positions: Positions, keys: Keys | None, count: int) -> Positions:
    """The first ``count`` positions by their keys, ties in the order given, without ordering all:
    of a million trajectories a page shows a hundred."""
    if keys is None:
        return positions[:count]
    here = keys[positions]
    if len(here) > count:
        bound = np.partition(here, count - 1)[count - 1]  # which puts NaN last
        less = np.flatnonzero(~np.isnan(here) if np.isnan(bound) else here < bound)
        ties = np.flatnonzero(np.isnan(here) if np.isnan(bound) else here == bound)
        kept = np.concatenate([less, ties[: count - len(less)]])
        positions, here = positions[kept], here[kept]
    ordered: Positions = positions[np.argsort(here, kind="stable")]
    return ordered


def read_entries(path: Path) -> Entries:
    """The complete entries of an index file; empty if it does not exist."""
    try:
        with open(path, "rb") as file:
            return np.fromfile(file, ENTRY, os.fstat(file.fileno()).st_size // ENTRY.itemsize)
    except FileNotFoundError:
        return np.empty(0, ENTRY)


def _latest(entries: Entries) -> Entries:
    """The last entry of every id, in file order."""
    keys = np.sort(entries["key"])
    if not np.any(keys[1:] == keys[:-1]):  # seldom is one written twice
        return entries
    _, first = np.unique(entries["key"][::-1], return_index=True)
    return entries[np.sort(len(entries) - 1 - first)]
