"""Clients of an encoder process, for event loops and for threads."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.connection import Answer, Connection, ConnectionLost
from services.retrieval.encoder.errors import EncoderTimeout, EncoderUnavailable, error_of
from services.retrieval.encoder.protocol import Operation, encoded_texts, parts
from services.retrieval.encoder.specification import EncoderDescription, TextKind

CONCURRENT_PARTS = 4
PART_TEXTS = 512
RECONNECT_SECONDS = 0.1
TRIES = 3


class EncoderClient:
    """One connection to an encoder, shared by all tasks of an event loop.

    Concurrent calls are merged into batches by the encoder, together with those of other processes.
    A lost connection is reopened within a call's deadline and the call retried a few times, not
    forever: the call may be what crashes the encoder. Cancelling a task cancels its work in the
    encoder.
    """

    def __init__(self, socket: Path) -> None:
        """Connects to the socket of an `EncoderProcess` on first use."""
        self._socket = socket
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    async def describe(self, *, deadline: float) -> EncoderDescription:
        """Describe the encoder once its model is loaded.

        Deadlines, here and below, are times of `time.monotonic`. Raises `EncoderUnusable` when the
        model cannot be loaded, `EncoderUnavailable` when nothing listens.
        """
        response, _ = await self._ask(Operation.DESCRIBE, deadline=deadline)
        if response.description is None:
            raise EncoderUnavailable("the encoder sent no description")
        return response.description

    async def busy_seconds(self, *, deadline: float) -> float:
        """Age in seconds of the oldest batch being computed; 0 when idle."""
        response, _ = await self._ask(Operation.HEALTH, deadline=deadline)
        return response.busy_seconds or 0.0

    async def encode(
        self, texts: Sequence[str], kind: TextKind, *, deadline: float
    ) -> NDArray[np.float32]:
        """Encode ``texts`` to unit vectors: (texts, dimension), float32, in order.

        Every text has a vector, the empty one too; texts are truncated to ``max_tokens``. Raises
        `EncoderTimeout`, `EncoderBusy`, `EncoderUnavailable`, `EncoderUnusable`.
        """
        if not texts:
            description = await self.describe(deadline=deadline)
            return np.empty((0, description.dimension), np.float32)
        return await self._in_parts(
            Operation.ENCODE, parts(encoded_texts(texts), PART_TEXTS), deadline, kind
        )

    async def score(
        self, query: str, passages: Sequence[str], *, deadline: float
    ) -> NDArray[np.float32]:
        """Score each passage for ``query``: (passages,), float32, higher is better.

        Uses the reranker if one is configured, else the cosine similarity. Raises as `encode` does.
        """
        if not passages:
            return np.empty(0, np.float32)
        encoded = list(encoded_texts([query]))
        split = parts(encoded_texts(passages), PART_TEXTS)
        scores = await self._in_parts(Operation.SCORE, (encoded + part for part in split), deadline)
        return scores.reshape(-1)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """Close the connection; pending calls raise `EncoderUnavailable`."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _in_parts(
        self,
        operation: Operation,
        split: Iterator[list[bytes]],
        deadline: float,
        kind: TextKind = TextKind.QUERY,
    ) -> NDArray[np.float32]:
        """Send the parts concurrently and concatenate the answers in order."""
        slots = asyncio.Semaphore(CONCURRENT_PARTS)

        async def ask(part: list[bytes]) -> NDArray[np.float32]:
            async with slots:
                return (await self._ask(operation, kind=kind, texts=part, deadline=deadline))[1]

        first = next(split)
        rest = list(split)
        if not rest:
            return await ask(first)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(part)) for part in (first, *rest)]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return np.concatenate([task.result() for task in tasks])

    async def _ask(
        self,
        operation: Operation,
        *,
        deadline: float,
        kind: TextKind = TextKind.QUERY,
        texts: Sequence[bytes] = (),
    ) -> Answer:
        problem = "the encoder did not answer in time"
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                for _ in range(TRIES):
                    connection = await self._connected()
                    try:
                        answer = await connection.ask(
                            operation, kind=kind, texts=texts, deadline=deadline
                        )
                        break
                    except ConnectionLost as error:
                        problem = str(error)
                        await asyncio.sleep(RECONNECT_SECONDS)
                else:
                    raise EncoderUnavailable(problem)
        except TimeoutError:
            if self._connection is None or self._connection.lost:
                raise EncoderUnavailable(f"no encoder listens on {self._socket}") from None
            raise EncoderTimeout(problem) from None
        if answer[0].failure is not None:
            raise error_of(answer[0].failure.code, answer[0].failure.message)
        return answer

    async def _connected(self) -> Connection:
        """The connection, reopened if lost; retries until the caller's deadline."""
        async with self._connecting:
            while self._connection is None or self._connection.lost:
                if self._closed:
                    raise EncoderUnavailable("the connection to the encoder was closed")
                try:
                    self._connection = await Connection.open(self._socket)
                except ConnectionLost:
                    await asyncio.sleep(RECONNECT_SECONDS)
            return self._connection


class BlockingEncoderClient:
    """One connection to an encoder, for a thread without an event loop.

    Raises as `EncoderClient` does. Must be closed.
    """

    def __init__(self, socket: Path) -> None:
        """``socket`` is that of an `EncoderProcess`. Nothing is connected yet."""
        self._runner = asyncio.Runner()
        self._client = EncoderClient(socket)

    def describe(self, *, deadline: float) -> EncoderDescription:
        """Describe the encoder once its model is loaded."""
        return self._runner.run(self._client.describe(deadline=deadline))

    def busy_seconds(self, *, deadline: float) -> float:
        """Age in seconds of the oldest batch being computed; 0 when idle."""
        return self._runner.run(self._client.busy_seconds(deadline=deadline))

    def encode(
        self, texts: Sequence[str], kind: TextKind, *, deadline: float
    ) -> NDArray[np.float32]:
        """Encode ``texts`` to unit vectors: (texts, dimension), float32, in order.

        Works best with thousands of texts per call: parts are sent concurrently.
        """
        return self._runner.run(self._client.encode(texts, kind, deadline=deadline))

    def score(self, query: str, passages: Sequence[str], *, deadline: float) -> NDArray[np.float32]:
        """Score each passage for ``query``: (passages,), float32, higher is better."""
        return self._runner.run(self._client.score(query, passages, deadline=deadline))

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._client.closed:
            return
        self._runner.run(self._client.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
