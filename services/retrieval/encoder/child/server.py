"""Server side of the encoder's connections."""

import asyncio
import logging
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from services.contracts.errors import TemperError
from services.retrieval.encoder.child.queue import EncoderTask, TaskQueue
from services.retrieval.encoder.errors import EncoderBusy
from services.retrieval.encoder.protocol import (
    EncoderFailure,
    EncoderRequest,
    Operation,
    ProtocolError,
    Response,
    parse_request,
    read_message,
    response_message,
)
from services.retrieval.encoder.specification import EncoderDescription, TextKind

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
MAX_PENDING = 4096
"""Per connection."""

LONGEST_SECONDS = 3600.0
Array = NDArray[np.float32]


class Server:
    """Serves all connections; ``loaded`` resolves to the description once the model is loaded."""

    def __init__(
        self,
        waiting: TaskQueue,
        loaded: "asyncio.Future[EncoderDescription]",
        busy_seconds: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._loaded = loaded
        self._busy_seconds = busy_seconds
        self._connections = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, and drop its pending tasks when it closes."""
        if self._connections == MAX_CONNECTIONS:
            logger.warning("a connection was refused: %d are open", MAX_CONNECTIONS)
            writer.close()
            return
        self._connections += 1
        connection = _Connection(self, writer)
        try:
            while (received := await read_message(reader)) is not None:
                connection.take(parse_request(received[0]))
                await writer.drain()  # backpressure: a client that does not read cannot send
        except (ConnectionError, ProtocolError) as error:
            logger.warning("a connection was closed: %s", error)
        except asyncio.CancelledError:
            return  # asyncio would log each connection as an error at shutdown
        finally:
            self._connections -= 1
            connection.drop_all()
            writer.close()

    async def described(self) -> EncoderDescription:
        """The encoder's description; raises `EncoderUnusable`."""
        return await asyncio.shield(self._loaded)

    def busy_seconds(self) -> float:
        """Age in seconds of the oldest batch being computed."""
        return self._busy_seconds()

    def add(self, task: EncoderTask) -> None:
        """Enqueue a task; raises `EncoderBusy`, and `EncoderUnusable` when the model failed to
        load."""
        if self._loaded.done() and (error := self._loaded.exception()) is not None:
            raise error
        self._waiting.add(task)

    @property
    def reranks(self) -> bool:
        """Whether scores come from a reranker."""
        return self._loaded.done() and self._loaded.result().reranker is not None


class _Connection:
    def __init__(self, server: Server, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, EncoderTask] = {}
        self._describing: set[asyncio.Task[None]] = set()

    def take(self, request: EncoderRequest) -> None:
        """Start a request."""
        match request.operation:
            case Operation.DESCRIBE:
                describing = asyncio.create_task(self._describe(request.id))
                self._describing.add(describing)
                describing.add_done_callback(self._describing.discard)
            case Operation.HEALTH:
                self._answer(Response(id=request.id, busy_seconds=self._server.busy_seconds()))
            case Operation.CANCEL:
                if (task := self._tasks.get(request.id)) is not None:
                    task.drop()
            case Operation.ENCODE | Operation.SCORE:
                try:
                    self._add(request)
                except TemperError as error:
                    self._fail(request.id, error)

    def drop_all(self) -> None:
        """Drop all tasks: the client disconnected."""
        for task in list(self._tasks.values()):
            task.drop()
        for describing in self._describing:
            describing.cancel()

    def _add(self, request: EncoderRequest) -> None:
        if len(self._tasks) >= MAX_PENDING:
            raise EncoderBusy(f"{MAX_PENDING} requests of this connection are already pending")
        if len(request.texts) < (2 if request.operation is Operation.SCORE else 1):
            raise ProtocolError("a request has too few texts")
        deadline = time.monotonic() + LONGEST_SECONDS
        if request.deadline is not None:
            deadline = min(deadline, request.deadline)
        kind = TextKind.PASSAGE if request.operation is Operation.SCORE else request.kind

        def finished(result: Array | None, error: Exception | None) -> None:
            self._loop.call_soon_threadsafe(self._finished, request, result, error)

        task = EncoderTask(request.operation, kind, request.texts, deadline, finished)
        self._server.add(task)
        self._tasks[request.id] = task

    def _finished(
        self, request: EncoderRequest, result: Array | None, error: Exception | None
    ) -> None:
        self._tasks.pop(request.id, None)
        if result is not None and request.operation is Operation.SCORE:
            result = result[1:] if self._server.reranks else result[1:] @ result[0][:, None]
        if result is not None:
            self._write(response_message(Response(id=request.id), result))
        elif error is not None:
            self._fail(request.id, error)

    async def _describe(self, number: int) -> None:
        try:
            description = await self._server.described()
        except TemperError as error:
            self._fail(number, error)
        else:
            self._answer(Response(id=number, description=description))

    def _fail(self, number: int, error: Exception) -> None:
        code = error.code if isinstance(error, TemperError) else "internal_error"
        self._answer(Response(id=number, failure=EncoderFailure(code=code, message=str(error))))

    def _answer(self, response: Response) -> None:
        self._write(response_message(response))

    def _write(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)
