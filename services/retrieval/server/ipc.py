"""What the processes of one service say to each other, in a folder that is theirs alone.

The parent holds the encoders: a server that needs one asks where it listens. A request is one line
of JSON, and so is the answer.
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


class BuiltMark:
    """Whether the default index was built, if it had to be: set by the parent, seen by all."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "built"

    def is_set(self) -> bool:
        """Whether there is nothing to build any more."""
        return self._path.exists()

    def set(self) -> None:
        """There is nothing to build any more."""
        self._path.touch()


async def ask_for_encoder(folder: Path, specification: EncoderSpecification) -> Path:
    """Where an encoder listens, by the word of the parent; raises `Unavailable`."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(_encoders(folder))
            try:
                writer.write(specification.model_dump_json().encode() + b"\n")
                answer = _Answer.model_validate_json(await reader.readline())
            finally:
                writer.close()
    except (OSError, TimeoutError, ValidationError) as error:
        raise Unavailable(f"no encoder is to be had: {error!r:.200}") from error
    if answer.socket is None:
        raise Unavailable(answer.error, code=answer.code or None)
    return answer.socket


@asynccontextmanager
async def encoders_told(folder: Path, find_socket: FindSocket) -> AsyncIterator[None]:
    """Meanwhile, answer the servers that ask for encoders."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await _answer(await reader.readline(), find_socket)
                writer.write(answer.model_dump_json().encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError):  # it has gone, or has sent no line
            return
        finally:
            writer.close()

    listening = await asyncio.start_unix_server(tell, _encoders(folder), limit=MAX_LINE_BYTES)
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
