"""Messages between the service and a slot: a small header and a body of bytes.

On the wire: the length of the header (4 bytes) and of the body (8 bytes), both big-endian, the
header as JSON, the body. Descriptors travel with the first byte.
"""

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

PREFIX = struct.Struct(">IQ")
LARGEST_HEADER = 4 << 20
MOST_DESCRIPTORS = 8
CANCEL = bytes(PREFIX.size)
"""What ends a run before its time: a message without a header."""

Header = dict[str, Any]


class ChannelClosed(Exception):
    """The other end is gone."""


def encode(header: Header, *, body_length: int = 0) -> bytes:
    """A message up to its body."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(len(text), body_length) + text


def send(
    channel: socket.socket,
    header: Header,
    *,
    body_length: int = 0,
    descriptors: tuple[int, ...] = (),
) -> None:
    """Send a message over a blocking socket, its body left to follow; raises `ChannelClosed`."""
    data = encode(header, body_length=body_length)
    try:
        sent = socket.send_fds(channel, [data], list(descriptors)) if descriptors else 0
        if sent < len(data):  # an empty send fails once the receiver has hung up
            channel.sendall(memoryview(data)[sent:])
    except (BrokenPipeError, ConnectionResetError):
        raise ChannelClosed from None


def receive(channel: socket.socket) -> tuple[Header, list[int]]:
    """Wait for a message on a blocking socket, its body left to be read by `exactly`.

    Returns the header and the descriptors that came along; raises `ChannelClosed`.
    """
    with _noticing_reset():
        data, descriptors, _, _ = socket.recv_fds(channel, PREFIX.size, MOST_DESCRIPTORS)
    if not data:
        raise ChannelClosed
    data += exactly(channel, PREFIX.size - len(data))
    header_length, _ = PREFIX.unpack(data)
    if header_length > LARGEST_HEADER:
        raise ChannelClosed
    return json.loads(exactly(channel, header_length)), list(descriptors)


def await_message(channel: socket.socket) -> None:
    """Wait until a message is there, and leave it; raises `ChannelClosed`.

    Cancellations of a run that had ended when they came are taken and dropped.
    """
    while True:
        with _noticing_reset():
            prefix = channel.recv(PREFIX.size, socket.MSG_PEEK | socket.MSG_WAITALL)
        if not prefix:
            raise ChannelClosed
        if prefix != CANCEL:
            return
        exactly(channel, PREFIX.size)


def take_cancel(channel: socket.socket) -> None:
    """Take the cancellation that is there; raises `ChannelClosed`."""
    exactly(channel, PREFIX.size)


def exactly(channel: socket.socket, length: int) -> bytearray:
    """Read this many bytes; raises `ChannelClosed`."""
    data = bytearray(length)
    view, filled = memoryview(data), 0
    while filled < length:
        with _noticing_reset():
            read = channel.recv_into(view[filled:])
        if not read:
            raise ChannelClosed
        filled += read
    return data


@contextlib.contextmanager
def _noticing_reset() -> Iterator[None]:
    try:
        yield
    except ConnectionResetError:  # the other end has gone without reading all that was sent to it
        raise ChannelClosed from None
