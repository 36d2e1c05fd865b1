"""Servers beside a test, on an event loop in a thread of its own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from aiohttp import web

STEP_SECONDS = 60.0
Value = TypeVar("Value")


class LoopThread:
    """An event loop in a thread of its own; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine there and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(STEP_SECONDS)

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called there soon."""
        self._loop.call_soon_threadsafe(function)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEP_SECONDS)
        self._loop.close()


class ThreadedServer(ABC):
    """Serves ``routes`` on a free port until the block ends."""

    def __init__(self) -> None:
        self._thread = LoopThread()

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """What is served."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self._thread.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._runner.cleanup())
        self._thread.__exit__()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
