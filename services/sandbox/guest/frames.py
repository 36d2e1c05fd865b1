"""Messages between the service and a slot: a small header and a body of bytes.

On the wire: header length (4 bytes) and body length (8 bytes), both big-endian, the header as JSON,
the body. Descriptors travel with the first byte.
"""

import json
import socket
import struct
from typing import Any

PREFIX = struct.Struct(">IQ")
LARGEST_HEADER = 4 << 20
MAX_DESCRIPTORS = 8
CANCEL = bytes(PREFIX.size)
"""Cancels a run: a message without a header."""

Header = dict[str, Any]

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class ChannelClosed(Exception):
    """The other end is closed."""


def encode(header: Header, *, body_length: int = 0) -> bytes:
    """Encode a message up to its body."""
    text = _ENCODER.encode(header).encode()
    return PREFIX.pack(len(text), body_length) + text


def send(
    channel: socket.socket,
    header: Header,
    *,
    body_length: int = 0,
    descriptors: tuple[int, ...] = (),
) -> None:
    """Send a message over a blocking socket; the caller sends the body. Raises `ChannelClosed`."""
    data = encode(header, body_length=body_length)
    try:
        sent = socket.send_fds(channel, [data], list(descriptors)) if descriptors else 0
        if sent < len(data):  # sending zero bytes fails once the receiver has closed
            channel.sendall(memoryview(data)[sent:])
    except (BrokenPipeError, ConnectionResetError):
        raise ChannelClosed from None


def receive(channel: socket.socket) -> tuple[Header, list[int]]:
    """Receive a message from a blocking socket; the body is left for `exactly`.

    Returns the header and the descriptors that came along; raises `ChannelClosed`.
    """
    with _noticing_reset:
        data, descriptors, _, _ = socket.recv_fds(channel, PREFIX.size, MAX_DESCRIPTORS)
    if not data:
        raise ChannelClosed
    data += exactly(channel, PREFIX.size - len(data))
    header_length, _ = PREFIX.unpack(data)
    if header_length > LARGEST_HEADER:
        raise ChannelClosed
    return json.loads(exactly(channel, header_length).decode()), list(descriptors)


def is_request_next(channel: socket.socket) -> bool:
    """Wait for a message; whether it is a request, which is left; raises `ChannelClosed`.

    A late cancellation, of a run that has already ended, is dropped.
    """
    with _noticing_reset:
        prefix = channel.recv(PREFIX.size, socket.MSG_PEEK | socket.MSG_WAITALL)
    if not prefix:
        raise ChannelClosed
    if prefix != CANCEL:
        return True
    exactly(channel, PREFIX.size)
    return False


def take_cancel(channel: socket.socket) -> None:
    """Consume a cancellation; raises `ChannelClosed`."""
    exactly(channel, PREFIX.size)


def exactly(channel: socket.socket, length: int) -> bytearray:
    """Read exactly this many bytes; raises `ChannelClosed`."""
    data = bytearray(length)
    view, filled = memoryview(data), 0
    while filled < length:
        with _noticing_reset:
            read = channel.recv_into(view[filled:])
        if not read:
            raise ChannelClosed
        filled += read
    return data


class _ResetAsClosed:
    """Raises `ChannelClosed` where the other end closed with unread data.

    Not a generator, whose every use would run, and copy, much more of the zygote's memory.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, ConnectionResetError):
            raise ChannelClosed from None


_noticing_reset = _ResetAsClosed()
