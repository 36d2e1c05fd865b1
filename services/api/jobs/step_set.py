"""Sets of steps that are small in memory where many steps follow each other."""

from collections.abc import Iterable

_BLOCK = 1024


class StepSet:
    """A set of steps, as a mask of bits for each block of them that has any."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(mask.bit_count() for mask in self._masks.values())

    def __contains__(self, step: int) -> bool:
        return bool(self._masks.get(step // _BLOCK, 0) >> step % _BLOCK & 1)

    def add(self, steps: Iterable[int]) -> None:
        """Add steps."""
        for step in steps:
            block, bit = divmod(step, _BLOCK)
            self._masks[block] = self._masks.get(block, 0) | 1 << bit

    def discard(self, steps: Iterable[int]) -> None:
        """Take out those of these steps that are in the set."""
        if not self._masks:
            return
        for step in steps:
            block, bit = divmod(step, _BLOCK)
            if block in self._masks:
                self._masks[block] &= ~(1 << bit)

    def firsts(self, width: int) -> list[int]:
        """The first step in each interval of ``width`` steps, a power of two, in order."""
        found: dict[int, int] = {}
        part = min(width, _BLOCK)
        for block in sorted(self._masks):
            mask = self._masks[block]
            while mask:
                bit = (mask & -mask).bit_length() - 1
                step = block * _BLOCK + bit
                found.setdefault(step // width, step)
                behind = (bit // part + 1) * part
                mask = mask >> behind << behind
        return list(found.values())
