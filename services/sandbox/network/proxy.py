"""The proxy on a run's loopback interface, served by the service."""

import asyncio
import functools
import logging
import resource
import socket
from collections import Counter
from collections.abc import Coroutine

from services.sandbox.network.connecting import SETTING, Connector, Result
from services.sandbox.network.destinations import AllowList
from services.sandbox.network.exchange import ProxyExchange
from services.sandbox.network.stream import ByteStream, RateLimit
from services.sandbox.pool.protocol import readable

logger = logging.getLogger(__name__)

CONNECTIONS = 32
"""Concurrent connections of one run; further ones wait."""

IDLE_SECONDS = 300.0

_MAX_CONNECTIONS = 512
_RUN_BYTES_PER_SECOND = 32 << 20
_TOTAL_BYTES_PER_SECOND = 128 << 20
_STEP_BYTES = 16 << 10
_CONNECTION_BYTES = 256 << 10
_RETRY_SECONDS = 0.1


class Network:
    """Network access of all runs, as far as ``allow`` permits.

    Rate limits per run and overall bound its share of the event loop. They count bytes, with a
    minimum cost per step and a high one per connection. Refusals name ``setting``.
    """

    def __init__(self, allow: AllowList, setting: str = SETTING) -> None:
        self.results = Counter[Result]()
        self.connector = Connector(allow, setting)
        self.rate_limit = RateLimit(_TOTAL_BYTES_PER_SECOND)
        self.connection_slots = asyncio.Semaphore(_max_connections())

    def proxy(self, listener: int) -> "Proxy":
        """The proxy of a run; takes ownership of a listening socket."""
        return Proxy(self, socket.socket(fileno=listener))

    def count(self, result: Result) -> None:
        """Count the result of a request."""
        self.results[result] += 1

    def close(self) -> None:
        """Stop making connections."""
        self.connector.close()


class Proxy:
    """Serves one run, from `started` to `finish`."""

    def __init__(self, network: Network, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._network = network
        self._listener = listener
        self._rate_limit = RateLimit(_RUN_BYTES_PER_SECOND)
        self._connection_slots = asyncio.Semaphore(CONNECTIONS)
        self._tasks = set[asyncio.Task[None]]()

    def started(self) -> None:
        """Accept connections: the program is running."""
        self._in_background(self._accept(), self._listener)

    def finish(self) -> None:
        """Abort all connections; sockets are closed on the next turn of the event loop."""
        for task in self._tasks:
            task.cancel()

    def discard(self) -> None:
        """Close without having been started."""
        self._listener.close()

    async def _accept(self) -> None:
        while True:
            await self._connection_slots.acquire()
            connection = await self._next_connection()
            task = self._in_background(self._serve(connection), connection)
            task.add_done_callback(lambda _: self._connection_slots.release())
            await asyncio.sleep(self._reserve(_CONNECTION_BYTES))

    async def _next_connection(self) -> socket.socket:
        while True:
            await readable(self._listener)
            try:
                return self._listener.accept()[0]
            except BlockingIOError:
                continue
            except OSError as error:  # out of descriptors
                logger.warning("a program's connection was not accepted: %s", error.strerror)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._network.connection_slots, asyncio.timeout(IDLE_SECONDS) as idle:

                async def spend(amount: int) -> None:
                    if not idle.expired():
                        idle.reschedule(loop.time() + IDLE_SECONDS)
                    await asyncio.sleep(self._reserve(max(amount, _STEP_BYTES)))

                exchange = ProxyExchange(self._network.connector, spend, self._network.count)
                await exchange.serve(ByteStream(connection, spend))
        except OSError:  # it broke, or was idle for too long
            pass

    def _reserve(self, amount: int) -> float:
        return max(self._rate_limit.reserve(amount), self._network.rate_limit.reserve(amount))

    def _in_background(
        self, work: Coroutine[None, None, None], closing: socket.socket
    ) -> "asyncio.Task[None]":
        """Run a task that owns a socket."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._done, closing))
        return task

    def _done(self, closing: socket.socket, task: "asyncio.Task[None]") -> None:
        closing.close()
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("the proxy of a run failed", exc_info=task.exception())


def _max_connections() -> int:
    """Leave half of the descriptors to the service; a connection needs two."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return min(_MAX_CONNECTIONS, descriptors // 4)
