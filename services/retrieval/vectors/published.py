"""Published vectors: a flat faiss index, in one file or split into parts.

Parsed here instead of by faiss, which would need the parts joined: those of Wikipedia take 61 GB.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from services.retrieval.vectors.base import Vectors
from services.retrieval.vectors.errors import VectorFileUnusable
from services.retrieval.vectors.files import chunks

PARTS = "part_*"
"""Names of the files that ``split`` creates, in the order of their content."""

_HEADER = struct.Struct("<4s i q q q ? i Q")
"""faiss's write_index: kind, dimension, rows, two unused, trained, metric, count of floats."""

_KINDS = (b"IxFI", b"IxF2")
"""IndexFlatIP and IndexFlatL2, which rank vectors of length 1 alike."""

_FLOAT_BYTES = 4
_LENGTH_TOLERANCE = 0.01  # half precision, in which many vectors were computed


class PublishedVectors:
    """The vectors of a flat index, (rows, dimension), all of length 1 or zero."""

    def __init__(self, path: Path) -> None:
        """Use a file, or a folder of parts; raises VectorFileUnusable for any other content."""
        self.path = path
        self._files = _JoinedFiles(path)
        head = self._files.read(0, _HEADER.size)
        if len(head) < _HEADER.size or head[:4] not in _KINDS:
            raise VectorFileUnusable(path, "is not a flat index of faiss (IndexFlatIP)")
        _, self.dimension, self.rows, *_, floats = _HEADER.unpack(head)
        needed = _HEADER.size + _FLOAT_BYTES * floats
        if self.dimension < 1 or self.rows < 0 or floats != self.rows * self.dimension:
            raise VectorFileUnusable(path, "is damaged: its header contradicts itself")
        if self._files.size != needed:
            raise VectorFileUnusable(
                path,
                f"has {self._files.size:,} bytes, but {self.rows:,} vectors of {self.dimension} "
                f"dimensions take {needed:,}: it is incomplete or damaged",
            )

    def read(self, start: int, length: int) -> Iterator[Vectors]:
        """The vectors from row ``start`` on, ``length`` at a time.

        Raises VectorFileUnusable for one that has neither length 1 nor 0.
        """
        width = _FLOAT_BYTES * self.dimension
        for rows in chunks(start, self.rows, length):
            content = self._files.read(
                _HEADER.size + rows.start * width, (rows.stop - rows.start) * width
            )
            try:
                vectors = np.frombuffer(content, dtype="<f4").reshape(-1, self.dimension)
            except ValueError:
                raise VectorFileUnusable(self.path, "was truncated while it was read") from None
            self._check_lengths(vectors, rows.start)
            yield vectors

    def _check_lengths(self, vectors: Vectors, start: int) -> None:
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        is_bad = ~((np.abs(lengths - 1) <= _LENGTH_TOLERANCE) | (lengths == 0))
        if is_bad.any():
            row = int(np.argmax(is_bad))
            raise VectorFileUnusable(
                self.path,
                f"the vector of row {start + row + 1:,} has length {lengths[row]:.3g} instead of "
                "1: only vectors that are compared by cosine similarity can be imported",
            )


class _JoinedFiles:
    """The content of a file, or of a folder's parts one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._parts = [
                (part, part.stat().st_size)
                for part in (sorted(path.glob(PARTS)) if path.is_dir() else [path])
            ]
        except OSError as error:
            raise VectorFileUnusable(path, f"cannot be read: {error.strerror}") from error
        if not self._parts:
            raise VectorFileUnusable(path, f"is a folder without files named {PARTS}")
        self.size = sum(size for _, size in self._parts)

    def read(self, offset: int, count: int) -> bytes:
        """``count`` bytes from ``offset`` on, or fewer at the end."""
        pieces = []
        for part, size in self._parts:
            if count and offset < size:
                piece = _read(part, offset, min(count, size - offset))
                pieces.append(piece)
                count -= len(piece)
                offset = size
            offset -= size
        return b"".join(pieces)


def _read(path: Path, offset: int, count: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(count)
    except OSError as error:
        raise VectorFileUnusable(path, f"cannot be read: {error.strerror}") from error
