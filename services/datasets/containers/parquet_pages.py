"""Sizes in the page headers of a Parquet file, which determine the memory that reading it takes.

The sizes in a file's footer are only hints: a reader decompresses as many bytes as each page header
says. A header is a Thrift struct in the compact protocol; two of its fields are needed
(parquet.thrift: PageHeader).
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

_UNCOMPRESSED_SIZE = 2
_COMPRESSED_SIZE = 3
"""Field ids."""

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_MAX_NESTING = 8
_MAX_STEPS = 10_000
"""Maximum bytes of a header that are parsed; strings are skipped. Real headers have about fifty."""


@dataclass(frozen=True)
class ParquetPage:
    """The sizes of a page in bytes, in the file and in memory."""

    stored: int
    expanded: int


def pages(content: mmap.mmap | bytes, start: int, length: int) -> Iterator[ParquetPage]:
    """The pages of the column chunk at ``start``; raises ValueError if there are none."""
    position, end = start, start + length
    while position < end:
        header = _Header(content, position)
        try:
            sizes = header.read_sizes()
        except IndexError:
            raise ValueError("a page header is cut off") from None
        page = ParquetPage(sizes.get(_COMPRESSED_SIZE, -1), sizes.get(_UNCOMPRESSED_SIZE, -1))
        if min(page.stored, page.expanded) < 0:
            raise ValueError("a page has no size")
        yield page
        position = header.position + page.stored


class _Header:
    """Reads one struct of Thrift's compact protocol; IndexError where the file ends."""

    def __init__(self, content: mmap.mmap | bytes, position: int) -> None:
        self._content = content
        self._steps = 0
        self.position = position

    def read_sizes(self) -> dict[int, int]:
        """The integers among the fields, by field id."""
        found: dict[int, int] = {}
        for field, kind in self._fields():
            if kind in _INTEGERS:
                found[field] = _signed(self._varint())
            else:
                self._skip(kind, 0)
        return found

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while (head := self._byte()) != _STOP:
            difference = head >> 4
            field = field + difference if difference else _signed(self._varint())
            yield field, head & 0x0F

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MAX_NESTING:
            raise ValueError("a page header is nested too deeply")
        if kind == _BYTE:
            self.position += 1
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self.position += 8
        elif kind == _BINARY:
            length = self._varint()
            self.position += length
        elif kind in (_LIST, _SET):
            self._skip_list(depth)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind not in (_TRUE, _FALSE):  # whose value is the kind
            raise ValueError("a page header holds no known type")

    def _skip_list(self, depth: int) -> None:
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 0x0F:
            size = self._varint()
        for _ in range(size):
            if kind in (_TRUE, _FALSE, _BYTE):
                self._byte()
            else:
                self._skip(kind, depth + 1)

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number in a page header is too long")

    def _byte(self) -> int:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise ValueError("a page header is too long")
        byte = self._content[self.position]
        self.position += 1
        return byte


def _signed(number: int) -> int:
    """Zigzag decoding."""
    return (number >> 1) ^ -(number & 1)
