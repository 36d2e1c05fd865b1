"""The order in which rows are drawn: whole epochs, or sources in proportion to their weights."""

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from services.contracts.errors import InvalidRequest

CYCLE = 1000
"""Draws in which each source has its share, rounded to whole draws."""


class PromptOrder(Protocol):
    """Maps a draw number to a row, determined by a seed."""

    @property
    def rows(self) -> int:
        """The number of rows that are ever drawn."""
        ...

    def row(self, draw: int) -> int:
        """The row of a draw."""
        ...


class EpochShuffle:
    """Each epoch is a full shuffle."""

    def __init__(self, rows: int, seed: int | str) -> None:
        self._rows = rows
        self._seed = seed
        self._epoch = -1
        self._shuffled: list[int] = []

    @property
    def rows(self) -> int:
        """See `PromptOrder`."""
        return self._rows

    def row(self, draw: int) -> int:
        """See `PromptOrder`."""
        epoch, place = divmod(draw, self._rows)
        if epoch != self._epoch:
            self._shuffled = list(range(self._rows))
            random.Random(f"{self._seed}:{epoch}").shuffle(self._shuffled)  # noqa: S311 - no secret
            self._epoch = epoch
        return self._shuffled[place]


class WeightedSources:
    """Sources are drawn in proportion to their weights, and the rows of each in epochs of its own;
    a row whose source has no weight is never drawn.

    ``sources`` are those of the rows. Raises `InvalidRequest` for a weighted source without rows.
    """

    def __init__(
        self, sources: Sequence[str | None], weights: Mapping[str, float], seed: int
    ) -> None:
        self._members: dict[str, list[int]] = {name: [] for name in weights}
        for row, source in enumerate(sources):
            if source is not None and source in self._members:
                self._members[source].append(row)
        empty = [name for name, members in self._members.items() if not members]
        if empty:
            message = f"no row of the training file has the source {empty[0]!r}"
            raise InvalidRequest(message, param="source_weights")
        self._orders = {
            name: EpochShuffle(len(members), f"{seed}:{name}")
            for name, members in self._members.items()
        }
        self._shares = _shares(weights)
        self._cycle, self._before = _spread(self._shares)

    @property
    def rows(self) -> int:
        """See `PromptOrder`."""
        return sum(map(len, self._members.values()))

    def row(self, draw: int) -> int:
        """See `PromptOrder`."""
        cycle, place = divmod(draw, len(self._cycle))
        name = self._cycle[place]
        number = cycle * self._shares[name] + self._before[place]
        return self._members[name][self._orders[name].row(number)]


def _shares(weights: Mapping[str, float]) -> dict[str, int]:
    """Draws of each source in a cycle, at least one."""
    whole = sum(weights.values())
    return {name: max(1, round(CYCLE * weight / whole)) for name, weight in weights.items()}


def _spread(shares: Mapping[str, int]) -> tuple[list[str], list[int]]:
    """A cycle with the shares, and how often a source was drawn in it before each place.

    The source that lacks most is next, so that every batch has about its shares.
    """
    whole = sum(shares.values())
    cycle: list[str] = []
    before: list[int] = []
    drawn = dict.fromkeys(shares, 0)
    for place in range(1, whole + 1):
        lacking = {each: share * place / whole - drawn[each] for each, share in shares.items()}
        name = max(lacking, key=lacking.__getitem__)
        cycle.append(name)
        before.append(drawn[name])
        drawn[name] += 1
    return cycle, before
