"""Reads TensorBoard's event files without TensorBoard."""

import re
import struct

_SCALAR = re.compile(rb"\x10([\x80-\xff]*[\x00-\x7f])\x2a.\x0a.\x0a\x04loss\x15", re.DOTALL)
"""Step and the tag of the first value of an event."""


def records(content: bytes) -> list[bytes]:
    """The payloads of all records; fails at a torn one."""
    found = []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert len(content) >= length + 16, "a torn record"
        found.append(content[12 : 12 + length])
        content = content[length + 16 :]
    return found


def steps_of_loss(content: bytes) -> list[int]:
    """The steps at which ``loss`` is the only metric, in the file's order."""
    found = (_SCALAR.search(payload) for payload in records(content))
    return [_number(each[1]) for each in found if each is not None]


def _number(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint))
