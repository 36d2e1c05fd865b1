"""Answers to clients that may hang up before they get them."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import Request, Response
from starlette.types import Receive

from services.core.web.disconnect import ServiceEnding

CLIENT_CLOSED_REQUEST = 499
"""Nobody reads it; it is what the figures show."""
UNWATCHED_SECONDS = 0.05
"""Most answers are there by then; watching a connection takes longer than many of them."""


async def answer_to(request: Request, work: Coroutine[Any, Any, bytes]) -> Response:
    """The JSON text that the work comes to; it is cancelled when the client hangs up.

    Raises `ServiceEnding` when the request is cancelled, which only an ending server does.
    """
    watch = _Watch(request.receive)
    try:
        content = await work
    except asyncio.CancelledError:
        if watch.has_hung_up:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        raise ServiceEnding("the service is ending") from None
    finally:
        watch.end()
    return Response(content, media_type="application/json")


class _Watch:
    """Cancels the current task when its client hangs up; ``has_hung_up`` says so."""

    def __init__(self, receive: Receive) -> None:
        self.has_hung_up = False
        self._receive = receive
        self._working = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(UNWATCHED_SECONDS, self._begin)

    def end(self) -> None:
        """Stop watching. The task goes on even if it was cancelled by this."""
        self._alarm.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self.has_hung_up and self._working is not None:
            self._working.uncancel()

    def _begin(self) -> None:
        self._watching = asyncio.ensure_future(self._until_hung_up())

    async def _until_hung_up(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_hung_up = True
        if self._working is not None:
            self._working.cancel()
