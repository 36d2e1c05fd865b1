"""Cancel the work of a request when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel
from starlette.types import Receive

from services.contracts.errors import GatewayTimeout

CLIENT_CLOSED_REQUEST = 499
"""Status of a request whose client disconnected, for metrics and logs only."""

UNWATCHED_SECONDS = 0.05
"""Most responses are ready by then; watching a connection costs more than many of them."""

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client disconnected before the response."""


class ServiceEnding(GatewayTimeout):
    """The service shuts down before the work is done; another instance may serve the request."""

    code = "service_ending"


async def answer_to(request: Request, work: Coroutine[Any, Any, BaseModel | bytes]) -> Response:
    """Respond with the result of ``work``, a model or JSON text; 499 if the client disconnects."""
    try:
        answer = await while_connected(request.receive, work)
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    # Encoded directly: a large response is not held a second time as text.
    content = (
        answer if isinstance(answer, bytes) else answer.__pydantic_serializer__.to_json(answer)
    )
    return Response(content, media_type="application/json")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work of a request whose body has been read, in the current task.

    Raises `ClientGone` when the client disconnects, and `ServiceEnding` when the request is
    cancelled, which only a server that shuts down does. The work is cancelled first and has ended.
    """
    watch = _Watch(receive)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.client_gone:
            raise ClientGone from None
        raise ServiceEnding("the service is shutting down") from None
    finally:
        watch.end()


class _Watch:
    """Cancels the current task when its client disconnects; ``client_gone`` then is true."""

    def __init__(self, receive: Receive) -> None:
        self.client_gone = False
        self._receive = receive
        self._working = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(UNWATCHED_SECONDS, self._begin)

    def end(self) -> None:
        """Stop watching; the task may await again even if this cancelled it."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self.client_gone and self._working is not None:
            self._working.uncancel()

    def _begin(self) -> None:
        self._watching = asyncio.ensure_future(self._until_disconnect())

    async def _until_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.client_gone = True
        if self._working is not None:
            self._working.cancel()
