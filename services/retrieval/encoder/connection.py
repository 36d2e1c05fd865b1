"""A multiplexed connection to an encoder."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.protocol import (
    Operation,
    ProtocolError,
    Response,
    parse_response,
    read_message,
    request_message,
)
from services.retrieval.encoder.specification import TextKind

Answer = tuple[Response, NDArray[np.float32]]


class ConnectionLost(Exception):
    """The encoder closed the connection or sent an invalid message."""


class Connection:
    """Pending requests, and the task that reads their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, socket: Path) -> Self:
        """Connect; raises `ConnectionLost` when nothing listens."""
        try:
            return cls(*await asyncio.open_unix_connection(socket))
        except OSError as error:
            raise ConnectionLost(f"no encoder listens on {socket}: {error.strerror}") from None

    @property
    def lost(self) -> bool:
        """Whether the connection can no longer deliver answers."""
        return self._receiving.done()

    async def ask(
        self,
        operation: Operation,
        *,
        kind: TextKind = TextKind.QUERY,
        texts: Sequence[bytes] = (),
        deadline: float | None = None,
    ) -> Answer:
        """Send a request and await its answer; raises `ConnectionLost`.

        Cancellation is passed on to the encoder.
        """
        if self.lost:
            raise ConnectionLost("the encoder closed the connection")
        number = next(self._numbers)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(
                request_message(number, operation, kind=kind, texts=texts, deadline=deadline)
            )
            await self._writer.drain()
            return await answer
        except ConnectionError as error:
            raise ConnectionLost(f"the encoder closed the connection: {error}") from None
        except asyncio.CancelledError:
            if not self.lost:
                self._writer.write(request_message(number, Operation.CANCEL))
            raise
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """Close the connection; pending requests raise `ConnectionLost`."""
        self._receiving.cancel()
        with suppress(asyncio.CancelledError):
            await self._receiving
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        reason = "the encoder closed the connection"
        try:
            while (received := await read_message(self._reader)) is not None:
                response, array = parse_response(*received)
                waiting = self._waiting.get(response.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result((response, array))
        except (ConnectionError, ProtocolError) as error:
            reason = f"the connection to the encoder broke: {error}"
        finally:
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionLost(reason))
