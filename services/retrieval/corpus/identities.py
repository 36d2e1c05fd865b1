"""Detects duplicate ids in a corpus of any size, in bounded memory."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

_HASH_BYTES = 8
_CHUNK = 1 << 22
"""Hashes per chunk: 32 MB, and as much again for sorting."""

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class IdLog:
    """A scratch file with the hash of each document's id, in order; removed on close."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink()

    def add(self, ids: Iterable[str]) -> None:
        """Append the ids of the next documents."""
        hashes = (blake2b(each.encode(), digest_size=_HASH_BYTES).digest() for each in ids)
        self._file.write(b"".join(hashes))

    def suspects(self, most: int) -> list[int]:
        """Numbers of documents whose id may be duplicated, in order.

        Covers the first ``most`` duplicates and the documents they duplicate. Hash collisions are
        possible, so callers compare the ids themselves.
        """
        self._file.flush()
        repeated: list[tuple[int, int]] = []
        for hashes, numbers in self._parts():
            repeated = sorted([*repeated, *_repetitions(hashes, numbers, most)])[:most]
        return sorted({number for pair in repeated for number in pair})

    def _parts(self) -> Iterator[tuple[Hashes, Numbers]]:
        """All hashes with their numbers, partitioned by leading bits so that equal hashes meet."""
        count = self._path.stat().st_size // _HASH_BYTES
        if not count:
            return
        hashes = np.memmap(self._path, dtype=">u8", mode="r", shape=(count,))
        bits = max(1, (2 * count // _CHUNK).bit_length())
        for part in range(1 << bits):
            found = [_chosen(hashes, start, bits, part) for start in range(0, count, _CHUNK)]
            yield (
                np.concatenate([values for values, _ in found]),
                np.concatenate([numbers for _, numbers in found]),
            )


def _chosen(hashes: Hashes, start: int, bits: int, part: int) -> tuple[Hashes, Numbers]:
    """The hashes of one chunk with these leading bits, and their numbers."""
    piece = hashes[start : start + _CHUNK].astype(np.uint64)
    places = np.flatnonzero(piece >> np.uint64(64 - bits) == np.uint64(part))
    return piece[places], places + start


def _repetitions(hashes: Hashes, numbers: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """The first documents that repeat an earlier hash, each paired with its first occurrence."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    same = same[np.argsort(numbers[order[same]])][:most]
    first = np.searchsorted(ordered, ordered[same], side="left")
    for later, earlier in zip(numbers[order[same]], numbers[order[first]], strict=True):
        yield int(later), int(earlier)
