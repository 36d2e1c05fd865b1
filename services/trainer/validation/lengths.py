"""Statistics of lengths in bounded memory."""

import math
from array import array
from dataclasses import dataclass

LONGEST = 2**20
"""Lengths up to here are counted exactly; longer ones share one place in the percentiles."""


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """Lengths per row, in ``unit``: tokens, or characters where no tokenizer was at hand.

    ``truncated`` rows are longer than the sequence length of the training; null in characters.
    """

    unit: str
    min: int
    mean: float
    p50: int
    p95: int
    max: int
    total: int
    truncated: int | None


class Lengths:
    """A histogram that lengths are added to."""

    def __init__(self) -> None:
        self._counts = array("Q")
        self._beyond = 0
        self._minimum = 0
        self._maximum = 0
        self._total = 0
        self._rows = 0

    def add(self, length: int) -> None:
        """Count one row."""
        if length > LONGEST:
            self._beyond += 1
        else:
            if length >= len(self._counts):
                self._counts.extend([0] * (length + 1 - len(self._counts)))
            self._counts[length] += 1
        self._minimum = length if not self._rows else min(self._minimum, length)
        self._maximum = max(self._maximum, length)
        self._total += length
        self._rows += 1

    def statistics(self, unit: str, limit: int | None) -> LengthStatistics | None:
        """The figures of all rows added, or None without any; rows over ``limit`` are cut."""
        if not self._rows:
            return None
        return LengthStatistics(
            unit=unit,
            min=self._minimum,
            mean=round(self._total / self._rows, 1),
            p50=self._percentile(0.50),
            p95=self._percentile(0.95),
            max=self._maximum,
            total=self._total,
            truncated=None if limit is None else sum(self._counts[limit + 1 :]) + self._beyond,
        )

    def _percentile(self, share: float) -> int:
        """The smallest length that at least this share of the rows does not exceed."""
        wanted = math.ceil(share * self._rows)
        seen = 0
        for length, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return length
        return self._maximum
