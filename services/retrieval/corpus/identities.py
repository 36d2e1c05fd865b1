"""Finding ids that occur twice in a corpus of any length, in bounded memory."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

_HASH_BYTES = 8
_AT_ONCE = 1 << 22
"""Hashes looked at in one piece: 32 MB, and as much again to sort them."""

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class IdentityLog:
    """A file with a hash of the id of every document, at the place of its number.

    Made anew with each log, and removed when the log is closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink()

    def add(self, ids: Iterable[str]) -> None:
        """Note the ids of the next documents."""
        hashes = (blake2b(each.encode(), digest_size=_HASH_BYTES).digest() for each in ids)
        self._file.write(b"".join(hashes))

    def suspects(self, most: int) -> list[int]:
        """Numbers of documents whose id may occur more than once, in order.

        They hold the first ``most`` repetitions with what they repeat. Two ids may share a hash,
        once in a million corpora of tens of millions: who asks compares the ids themselves.
        """
        self._file.flush()
        repeated: list[tuple[int, int]] = []
        for hashes, numbers in self._parts():
            repeated = sorted([*repeated, *_repetitions(hashes, numbers, most)])[:most]
        return sorted({number for pair in repeated for number in pair})

    def _parts(self) -> Iterator[tuple[Hashes, Numbers]]:
        """All hashes with their numbers, in parts by their leading bits: equal ones together."""
        count = self._path.stat().st_size // _HASH_BYTES
        if not count:
            return
        hashes = np.memmap(self._path, dtype=">u8", mode="r", shape=(count,))
        bits = max(1, (2 * count // _AT_ONCE).bit_length())
        for part in range(1 << bits):
            found = [_chosen(hashes, start, bits, part) for start in range(0, count, _AT_ONCE)]
            yield (
                np.concatenate([values for values, _ in found]),
                np.concatenate([numbers for _, numbers in found]),
            )


def _chosen(hashes: Hashes, start: int, bits: int, part: int) -> tuple[Hashes, Numbers]:
    """Of one piece, the hashes that begin with these bits, and their numbers."""
    piece = hashes[start : start + _AT_ONCE].astype(np.uint64)
    places = np.flatnonzero(piece >> np.uint64(64 - bits) == np.uint64(part))
    return piece[places], places + start


def _repetitions(hashes: Hashes, numbers: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """The first documents that repeat an earlier one's hash, each with the first that had it."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    same = same[np.argsort(numbers[order[same]])][:most]
    first = np.searchsorted(ordered, ordered[same], side="left")
    for later, earlier in zip(numbers[order[same]], numbers[order[first]], strict=True):
        yield int(later), int(earlier)
