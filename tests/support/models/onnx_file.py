"""A very small ONNX model, written field by field: each token's row of a table is its state."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_FLOAT, _INT64 = 1, 7


def write_lookup(path: Path, table: NDArray[np.float32]) -> None:
    """A model whose last hidden states are the rows of ``table``: (tokens, dimension)."""
    weights = (
        b"".join(_number(1, size) for size in table.shape)
        + _number(2, _FLOAT)
        + _text(8, "table")
        + _bytes(9, table.astype("<f4").tobytes())
    )
    node = (
        _text(1, "table")
        + _text(1, "input_ids")
        + _text(2, "last_hidden_state")
        + _text(4, "Gather")
    )
    graph = (
        _bytes(1, node)
        + _text(2, "lookup")
        + _bytes(5, weights)
        + _bytes(11, _value("input_ids", _INT64, ["rows", "tokens"]))
        + _bytes(12, _value("last_hidden_state", _FLOAT, ["rows", "tokens", table.shape[1]]))
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_number(1, 8) + _bytes(7, graph) + _bytes(8, _number(2, 17)))


def _value(name: str, kind: int, shape: list[str | int]) -> bytes:
    sizes = b"".join(
        _bytes(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape
    )
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, sizes)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + struct.pack("B", value)
