"""Filters, orders and pages of trajectories, without reading them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.datasets.append_log import LineSpan
from services.rollouts.log.columns import BLOCK, FINISH_CODES, Column, Columns
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.index import key_of
from services.rollouts.log.updates import Steps, UpdatesStamp, stamp_of_updates, steps_of

Positions = npt.NDArray[np.intp]
Hashes = npt.NDArray[np.uint64]
"""Keys of trajectories, as `key_of` makes them."""


class Listing:
    """A snapshot of a job's trajectories.

    A trajectory written twice is listed once, by its last line.
    """

    def __init__(self, latest: Columns | None = None) -> None:
        self._entries = Columns.of(0) if latest is None else latest
        self.end = int((self._entries.offset + self._entries.length).max(initial=0))
        """Offset of the end of the last line in the file of trajectories."""
        self._lock = Lock()
        self._updates: UpdatesStamp | None = None
        self._steps: Steps = np.zeros(0, np.uint32)

    def __len__(self) -> int:
        return len(self._entries)

    def extended(self, columns: Columns) -> "Listing":
        """These trajectories and newer ones, which replace those with the same ids."""
        newer = _latest(columns)
        if not len(self):  # spare a copy
            return Listing(newer)
        is_replaced = _among(self._entries.key, newer.key)
        kept = self._entries.take(~is_replaced) if is_replaced.any() else self._entries
        return Listing(kept.joined(newer))

    def within(self, size: int) -> "Listing":
        """The trajectories whose lines are in the first ``size`` bytes of the file."""
        ends = self._entries.offset + self._entries.length
        return Listing(self._entries.take(ends <= size))

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
        matching = _positions(self._matches(where), descending=descending)
        keys = self._keys(order, descending=descending)
        if after is not None:
            position = self._position(after)
            if position is None:
                raise LookupError(after)
            matching = (_after(block, position, keys, descending=descending) for block in matching)
        found = _first(matching, keys, limit + 1)
        return [self._place(int(each)) for each in found[:limit]], len(found) > limit

    def rewards(
        self, where: TrajectoryFilter
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        """Which trajectories match, and their rewards, NaN where there is none."""
        matches = self._matches(where)
        rewards = self._entries.reward
        return matches, rewards if matches.all() else rewards[matches]

    def steps(self, folder: Path) -> Steps:
        """The training step that learned from each trajectory, 0 for none; cached until the job's
        log of updates changes."""
        with self._lock:
            stamp = stamp_of_updates(folder)
            if self._updates != stamp or not len(self._steps):
                self._updates, self._steps = stamp, steps_of(folder, self._entries.key)
            return self._steps

    def _position(self, trajectory_id: str) -> int | None:
        found = np.flatnonzero(self._entries.key == key_of(trajectory_id))
        return int(found[-1]) if len(found) else None

    def _place(self, position: int) -> LineSpan:
        return LineSpan(int(self._entries.offset[position]), int(self._entries.length[position]))

    def _keys(self, order: TrajectoryOrder, *, descending: bool) -> "Keys | None":
        """The sort keys of trajectories; None for order of completion."""
        match order:
            case TrajectoryOrder.FINISHED:
                return None
            case TrajectoryOrder.REWARD:
                return Keys(self._entries.reward, is_negated=descending)
            case TrajectoryOrder.LENGTH:
                return Keys(self._entries.tokens, is_negated=descending)
            case TrajectoryOrder.ERRORS:
                return Keys(self._entries.errors, is_negated=descending)

    def _matches(self, where: TrajectoryFilter) -> npt.NDArray[np.bool_]:
        entries = self._entries
        matches = np.ones(len(entries), np.bool_)
        if where.min_reward is not None:
            matches &= entries.reward >= where.min_reward  # false for NaN
        if where.max_reward is not None:
            matches &= entries.reward <= where.max_reward
        if where.min_length is not None:
            matches &= entries.tokens >= where.min_length
        if where.max_length is not None:
            matches &= entries.tokens <= where.max_length
        if where.has_errors is not None:
            matches &= (entries.errors > 0) == where.has_errors
        if where.finish_reason is not None:
            matches &= entries.finish == FINISH_CODES[where.finish_reason]
        if where.prompt_index is not None:
            matches &= entries.prompt == where.prompt_index
        if where.mask is not None:
            matches &= where.mask
        return matches


@dataclass(frozen=True)
class Keys:
    """Sort keys of positions, the least first and NaN last."""

    column: Column
    is_negated: bool

    def of(self, positions: Positions) -> npt.NDArray[np.float64]:
        """The keys of some positions."""
        values: npt.NDArray[np.float64] = self.column[positions].astype(np.float64)
        return np.negative(values, out=values) if self.is_negated else values


def _positions(matches: npt.NDArray[np.bool_], *, descending: bool) -> Iterator[Positions]:
    """The positions that match, in blocks: positions of all trajectories would take memory in every
    concurrent request."""
    begins = range(0, len(matches), BLOCK)
    for begin in reversed(begins) if descending else begins:
        block = np.flatnonzero(matches[begin : begin + BLOCK]) + begin
        yield block[::-1] if descending else block


def _after(positions: Positions, after: int, keys: Keys | None, *, descending: bool) -> Positions:
    """The ``positions`` that sort after the position ``after``, ties in their order."""
    is_later = positions < after if descending else positions > after
    if keys is None:
        return positions[is_later]
    here, key = keys.of(positions), keys.of(np.array([after]))[0]
    if np.isnan(key):
        is_behind = np.isnan(here) & is_later
    else:
        is_behind = np.isnan(here) | (here > key) | ((here == key) & is_later)
    behind: Positions = positions[is_behind]
    return behind


def _first(blocks: Iterable[Positions], keys: Keys | None, count: int) -> Positions:
    """The first ``count`` positions by their keys, ties in the order given, without sorting all: a
    page shows a hundred of a million trajectories."""
    first: Positions = np.zeros(0, np.intp)
    for block in blocks:
        if keys is None:
            if len(first := np.concatenate([first, block])[:count]) == count:
                break
        else:
            candidates = block if len(first) < count else _before(block, int(first[-1]), keys)
            first = _first_of_block(np.concatenate([first, candidates]), keys, count)
    return first


def _before(positions: Positions, last: int, keys: Keys) -> Positions:
    """The ``positions`` with keys less than that of the position ``last``."""
    here, key = keys.of(positions), keys.of(np.array([last]))[0]
    before: Positions = positions[~np.isnan(here) if np.isnan(key) else here < key]
    return before


def _first_of_block(positions: Positions, keys: Keys, count: int) -> Positions:
    here = keys.of(positions)
    if len(here) > count:
        bound = np.partition(here, count - 1)[count - 1]  # which puts NaN last
        less = np.flatnonzero(~np.isnan(here) if np.isnan(bound) else here < bound)
        ties = np.flatnonzero(np.isnan(here) if np.isnan(bound) else here == bound)
        kept = np.concatenate([less, ties[: count - len(less)]])
        positions, here = positions[kept], here[kept]
    ordered: Positions = positions[np.argsort(here, kind="stable")]
    return ordered


def _latest(columns: Columns) -> Columns:
    """The last entry of every id, in the order of the file."""
    keys = np.sort(columns.key)
    if not np.any(keys[1:] == keys[:-1]):  # few are written twice
        return columns
    _, first = np.unique(columns.key[::-1], return_index=True)
    return columns.take(np.sort(len(columns) - 1 - first))


def _among(keys: Hashes, wanted: Hashes) -> npt.NDArray[np.bool_]:
    """Which of many keys are among a few wanted ones; sorts only these."""
    if not len(wanted):
        return np.zeros(len(keys), np.bool_)
    ordered = np.sort(wanted)
    nearest = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: npt.NDArray[np.bool_] = ordered[nearest] == keys
    return found
