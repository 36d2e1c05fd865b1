"""The columns of an index in memory: contiguous, and only those that listings read."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from services.contracts.rollouts.trajectories import FinishReason
from services.rollouts.log.index import ENTRY, Entries

BLOCK = 1 << 16
"""Entries per read: a whole index can take much memory."""
UNKNOWN = 255
FINISH_CODES = {reason: code for code, reason in enumerate(FinishReason)}

AS_ON_DISK = ("offset", "length", "errors", "key", "prompt", "reward", "tokens")

Column = npt.NDArray[Any]
Selected = npt.NDArray[np.bool_] | npt.NDArray[np.intp]


@dataclass(frozen=True)
class Columns:
    """One value of each column for every entry."""

    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint32]
    errors: npt.NDArray[np.uint32]
    key: npt.NDArray[np.uint64]
    prompt: npt.NDArray[np.int64]
    reward: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.uint32]
    finish: npt.NDArray[np.uint8]
    """A code of `FINISH_CODES`."""

    def __len__(self) -> int:
        return len(self.key)

    @classmethod
    def of(cls, count: int) -> Self:
        """Columns for ``count`` entries, not yet filled in."""
        columns: dict[str, Column] = {name: np.empty(count, ENTRY[name]) for name in AS_ON_DISK}
        return cls(**columns, finish=np.empty(count, np.uint8))

    def fill(self, begin: int, entries: Entries) -> None:
        """Fill in ``entries`` from position ``begin``."""
        part = slice(begin, begin + len(entries))
        for name in AS_ON_DISK:
            getattr(self, name)[part] = entries[name]
        self.finish[part] = UNKNOWN
        for reason, code in FINISH_CODES.items():
            self.finish[part][entries["finish"] == reason.value.encode()] = code

    def take(self, selected: Selected) -> Self:
        """The entries at these positions."""
        return type(self)(*(column[selected] for column in self._all()))

    def joined(self, others: Self) -> Self:
        """These entries, followed by the others."""
        pairs = zip(self._all(), others._all(), strict=True)
        return type(self)(*(np.concatenate(pair) for pair in pairs))

    def _all(self) -> Iterable[Column]:
        return (getattr(self, name) for name in self.__dataclass_fields__)


def read_columns(file: BinaryIO, begin: int) -> Columns:
    """The complete entries of an index file from the one at position ``begin`` on."""
    count = max(0, os.fstat(file.fileno()).st_size // ENTRY.itemsize - begin)
    columns = Columns.of(count)
    file.seek(begin * ENTRY.itemsize)
    filled = 0
    while filled < count:
        entries = np.frombuffer(file.read(min(BLOCK, count - filled) * ENTRY.itemsize), ENTRY)
        if not len(entries):  # a resuming training truncated the file in the meantime
            return columns.take(np.arange(filled))
        columns.fill(filled, entries)
        filled += len(entries)
    return columns
