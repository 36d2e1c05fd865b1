"""IPC between the processes of one service, through a private folder.

The parent owns the encoders; a server asks it for their sockets. Requests and answers are single
lines of JSON.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.contracts.errors import TemperError, Unavailable
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.engine.encoders import FindSocket

ANSWER_SECONDS = 10.0
MAX_LINE_BYTES = 1 << 16


class _Answer(BaseModel):
    socket: Path | None = None
    error: str = ""
    code: str = ""


class BuiltFlag:
    """Set by the parent once there is nothing left to build; visible to all processes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "built"

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._path.exists()

    def set(self) -> None:
        """Set it."""
        self._path.touch()


async def ask_for_encoder(folder: Path, specification: EncoderSpecification) -> Path:
    """Ask the parent for an encoder's socket; raises `Unavailable`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(_encoders(folder))
            try:
                writer.write(specification.model_dump_json().encode() + b"\n")
                answer = _Answer.model_validate_json(await reader.readline())
            finally:
                writer.close()
    except (OSError, TimeoutError, ValidationError) as error:
        raise Unavailable(f"cannot find an encoder: {error!r:.200}") from error
    if answer.socket is None:
        raise Unavailable(answer.error, code=answer.code or None)
    return answer.socket


@asynccontextmanager
async def serve_encoder_lookups(folder: Path, find_socket: FindSocket) -> AsyncIterator[None]:
    """Serve the encoder lookups of the servers, within the block."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await _answer(await reader.readline(), find_socket)
                writer.write(answer.model_dump_json().encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError):  # the peer disconnected or sent garbage
            return
        finally:
            writer.close()

    listening = await asyncio.start_unix_server(respond, _encoders(folder), limit=MAX_LINE_BYTES)
    try:
        yield
    finally:
        listening.close()


async def _answer(line: bytes, find_socket: FindSocket) -> _Answer:
    try:
        return _Answer(socket=await find_socket(EncoderSpecification.model_validate_json(line)))
    except TemperError as error:
        return _Answer(error=error.message, code=error.code)


def _encoders(folder: Path) -> Path:
    return folder / "encoders"
