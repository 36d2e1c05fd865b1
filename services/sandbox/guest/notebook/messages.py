"""Framed messages between the service, the driver and the kernel, and their limits.

The framing is that of `services.sandbox.guest.frames`: a header and a body of bytes. The driver
truncates to the limits, and the service rejects what exceeds them.
"""

import json
import socket
from collections.abc import Iterator, Sequence

from services.sandbox.guest.frames import LARGEST_HEADER, PREFIX, ChannelClosed, Header, encode

_PIECE = 1 << 18


class MalformedMessage(Exception):
    """Not a message: the other end is broken or was tampered with."""


def send(channel: socket.socket, header: Header, body: bytes = b"") -> None:
    """Send a message over a blocking socket; raises `ChannelClosed`."""
    try:
        channel.sendall(encode(header, body_length=len(body)))
        channel.sendall(body)
    except (BrokenPipeError, ConnectionResetError):
        raise ChannelClosed from None


def split(body: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Split a body into parts of these sizes."""
    ends = [sum(sizes[:number]) for number in range(1, len(sizes) + 1)]
    return [body[end - size : end] for size, end in zip(sizes, ends, strict=True)]


class Inbox:
    """Reassembles messages from whatever pieces arrive."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._received = bytearray()

    def take(self) -> Iterator[tuple[Header, bytes]]:
        """Read what is available without blocking; raises `ChannelClosed` after the last message.

        Raises `MalformedMessage` for anything else; the channel is then unusable.
        """
        try:
            piece = self._channel.recv(_PIECE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionResetError:
            piece = b""
        self._received += piece
        yield from self._whole()
        if not piece:
            raise ChannelClosed

    def _whole(self) -> Iterator[tuple[Header, bytes]]:
        while len(self._received) >= PREFIX.size:
            header_length, body_length = PREFIX.unpack_from(self._received)
            if header_length > LARGEST_HEADER:
                raise MalformedMessage
            start = PREFIX.size + header_length
            if len(self._received) < start + body_length:
                return
            try:
                header = json.loads(self._received[PREFIX.size : start])
            except (ValueError, RecursionError):
                raise MalformedMessage from None
            body = bytes(self._received[start : start + body_length])
            del self._received[: start + body_length]
            yield header, body


MAX_DISPLAYS = 1000
MAX_REPRESENTATIONS = 32
MAX_TYPE_LENGTH = 200
MAX_NAME_LENGTH = 200
MAX_VALUE_LENGTH = 64 << 10
MAX_TRACEBACK_LENGTH = 256 << 10
MAX_TRACEBACK_LINES = 10_000
MAX_ERRORS = 100
MAX_ENTRIES = 101
GATHERING_SECONDS = 0.02
GATHERED_BYTES = 64 << 10
