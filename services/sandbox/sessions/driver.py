"""The service's side of the protocol with a notebook's driver."""

import asyncio
import socket
from contextlib import suppress
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from services.sandbox.execution import Stream
from services.sandbox.guest.frames import LARGEST_HEADER, PREFIX, ChannelClosed, Header, encode
from services.sandbox.guest.notebook.messages import (
    MAX_ENTRIES,
    MAX_NAME_LENGTH,
    MAX_REPRESENTATIONS,
    MAX_TRACEBACK_LINES,
    MAX_TYPE_LENGTH,
    MAX_VALUE_LENGTH,
)


class ProtocolBroken(Exception):
    """The driver sent a malformed message, or one that is not allowed now."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class KernelReady(_Message):
    """A kernel is ready for cells."""

    type: Literal["ready"]


class Printed(_Message):
    """The running cell wrote the bytes of the body."""

    type: Literal["stream"]
    name: Annotated[Stream, Field(strict=False)]


class Representation(_Message):
    """One of the texts in the body; ``json`` if it is JSON."""

    type: Annotated[str, Field(max_length=MAX_TYPE_LENGTH)]
    json_: Annotated[bool, Field(alias="json")]
    size: Annotated[int, Field(ge=0)]


class CellDisplay(_Message):
    """The running cell displayed something, in one or more representations."""

    type: Literal["display"]
    items: Annotated[list[Representation], Field(max_length=MAX_REPRESENTATIONS)]


class Raised(_Message):
    """The running cell raised an exception."""

    type: Literal["error"]
    ename: Annotated[str, Field(max_length=MAX_NAME_LENGTH)]
    evalue: Annotated[str, Field(max_length=MAX_VALUE_LENGTH)]
    traceback: Annotated[list[str], Field(max_length=MAX_TRACEBACK_LINES)]


class CellDone(_Message):
    """The running cell has finished."""

    type: Literal["done"]
    ok: bool
    count: Annotated[int, Field(ge=0)] | None
    cut: list[Literal["stdout", "stderr", "display"]]


class Died(_Message):
    """The kernel exited, ending the running cell; a new one is starting."""

    type: Literal["died"]
    return_code: Annotated[int, Field(ge=-255, le=255)]


class FolderEntry(_Message):
    """A file in the work directory."""

    path: str
    bytes: Annotated[int, Field(ge=0)]
    modified: int


class FileAnswer(_Message):
    """Response to a file request: an error number, or the result."""

    type: Literal["file"]
    error: Annotated[int, Field(ge=1, le=4095)] | None
    entries: Annotated[list[FolderEntry], Field(max_length=MAX_ENTRIES)]


Message = KernelReady | Printed | CellDisplay | Raised | CellDone | Died | FileAnswer

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def read_message(header: bytes) -> Message:
    """Parse and validate a header; raises `ProtocolBroken`."""
    try:
        return _MESSAGE.validate_json(header)
    except ValidationError as error:
        raise ProtocolBroken(f"not a message of a driver: {error.errors()[0]['type']}") from None


_BUFFERED = 1 << 20


class DriverChannel:
    """Messages to and from a driver, with bodies of at most ``max_bytes``.

    The driver shares its sandbox with user code, which may have replaced it, so every message is
    validated, and a violation ends the notebook.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._max_bytes = max_bytes

    @classmethod
    async def over(cls, own_end: socket.socket, max_bytes: int) -> Self:
        """Wrap a connected socket, and take ownership of it."""
        return cls(*await asyncio.open_connection(sock=own_end, limit=_BUFFERED), max_bytes)

    async def receive(self) -> tuple[Message, bytes]:
        """Wait for a message; raises `ChannelClosed` and `ProtocolBroken`."""
        try:
            prefix = await self._reader.readexactly(PREFIX.size)
            header_length, body_length = PREFIX.unpack(prefix)
            if header_length > LARGEST_HEADER or body_length > self._max_bytes:
                raise ProtocolBroken("a message is too large")
            message = read_message(await self._reader.readexactly(header_length))
            return message, await self._reader.readexactly(body_length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChannelClosed from None

    async def send(self, header: Header, body: bytes = b"") -> None:
        """Send a message; raises `ChannelClosed`. Not reentrant."""
        if self._writer.transport.is_closing():  # in which state uvloop's write raises RuntimeError
            raise ChannelClosed
        self._writer.write(encode(header, body_length=len(body)) + body)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise ChannelClosed from None

    async def close(self) -> None:
        """Close the channel."""
        self._writer.transport.abort()
        with suppress(ConnectionError):  # the other end closed first
            await self._writer.wait_closed()
