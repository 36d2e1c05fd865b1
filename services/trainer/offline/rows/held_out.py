"""Rows that are held out of training for validation, by LLaMA-Factory's ``val_size``.

The library splits the lines that it reads. These repeat rows where a mixture does, and hold several
turns of one conversation where a template rewrites earlier ones, so that it would validate on what
it trains. Here a row is on one side with all that is identical to it.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.closed import ArgumentProblem

_KEY_BYTES = 8
_ARGUMENT = "val_size"

RowKeys: TypeAlias = "array[int]"
"""A number for each row of a source, equal for identical rows and else random by the seed."""


def keyed(entries: Iterable[bytes], keys: RowKeys, seed: int) -> Iterator[bytes]:
    """The rows, whose keys are appended to ``keys`` on the way."""
    salt = str(seed).encode()[: blake2b.MAX_KEY_SIZE]
    for entry in entries:
        digest = blake2b(entry, digest_size=_KEY_BYTES, key=salt).digest()
        keys.append(int.from_bytes(digest, "little"))
        yield entry


class HeldOut:
    """The rows with the smallest keys: a random choice, in 8 bytes for each row."""

    def __init__(self, sources: Sequence[RowKeys], val_size: float) -> None:
        """``val_size`` of the distinct rows of all sources are held out. Raises ArgumentRefused if
        none would be left to train on."""
        distinct = np.unique(np.concatenate([np.frombuffer(each, np.uint64) for each in sources]))
        self.rows = held_out_rows(val_size, len(distinct))
        self._last = int(distinct[self.rows - 1])

    def left(self, keys: RowKeys) -> list[int]:
        """The numbers of a source's rows that are trained."""
        return [number for number, key in enumerate(keys) if key > self._last]

    def distinct(self, sources: Sequence[RowKeys]) -> Iterator[tuple[int, int]]:
        """A source and a row of it for all that are held out, identical ones once, in order."""
        seen: set[int] = set()
        for source, keys in enumerate(sources):
            for number, key in enumerate(keys):
                if key <= self._last and key not in seen:
                    seen.add(key)
                    yield source, number


def held_out_rows(val_size: float, distinct: int) -> int:
    """How many of so many distinct rows are held out: below 1 a share, rounded up, as the library
    does it, and else a number. Raises ArgumentRefused if none would be left."""
    # Of 100 rows, 0.07 are 7, although the float's product is above.
    rows = math.ceil(Fraction(str(val_size)) * distinct) if val_size < 1 else int(val_size)
    if rows >= distinct:
        raise ArgumentRefused(
            _ARGUMENT,
            ArgumentProblem.BAD_CHOICE,
            f"{_ARGUMENT} {val_size:g} holds out {rows:,} rows, which leaves none to train on: "
            f"{distinct:,} of the training data differ",
        )
    return rows
