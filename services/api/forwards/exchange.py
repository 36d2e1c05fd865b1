"""One request passed on to a tool service, and its answer passed back, both as they come."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.api.forwards.headers import passed_back, passed_on
from services.api.forwards.upstream import Upstream
from services.contracts.errors import GatewayTimeout
from services.core.web.disconnect import ClientGone, while_connected

logger = logging.getLogger(__name__)


class Forwarded(Response):
    """The answer of a tool service to the request.

    Nothing is collected: pieces go on as they come, no faster than the other side takes them.
    When the client goes away, so does the request to the service. When the service breaks off
    in the middle of its answer, the connection to the client is cut: a part is never mistaken
    for the whole.
    """

    def __init__(self, upstream: Upstream, path: str) -> None:
        super().__init__()
        self._upstream = upstream
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on and back; raises the `TemperError` that the client is answered with."""
        service = self._upstream.service
        if self._upstream.calls >= service.calls:
            raise GatewayTimeout(f"{service.calls} calls of the {service.name} are under way")
        self._upstream.calls += 1
        body = _Body(receive)
        try:
            with suppress(ClientGone):
                await while_connected(body.after, self._exchange(scope, body, send))
        finally:
            self._upstream.calls -= 1

    async def _exchange(self, scope: Scope, body: "_Body", send: Send) -> None:
        started = False
        try:
            async with asyncio.timeout(self._upstream.service.seconds):
                headers = passed_on(scope["headers"])
                async with await self._upstream.post(self._path, headers, body.pieces()) as answer:
                    started = True
                    await _pass_back(answer, send)
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(body.failure, ClientGone):
                return
            if started:
                # The server cuts the connection of an answer that is not brought to its end.
                logger.warning("%s broke off its answer: %r", self._upstream.service.name, error)
                return
            raise body.failure or self._upstream.failure(error) from error


async def _pass_back(answer: aiohttp.ClientResponse, send: Send) -> None:
    headers = passed_back(answer.raw_headers)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    is_whole = False
    while not is_whole:
        piece = await answer.content.readany()
        is_whole = answer.content.at_eof()
        await send({"type": "http.response.body", "body": piece, "more_body": not is_whole})


class _Body:
    """The body of a request; ``failure`` is what ended its reading early."""

    def __init__(self, receive: Receive) -> None:
        self.failure: Exception | None = None
        self._receive = receive
        self._is_complete = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its pieces as they come; raises `failure`."""
        try:
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                more = message.get("more_body", False)
                if piece := message.get("body", b""):
                    yield piece
        except Exception as error:
            self.failure = error
            raise
        self._is_complete.set()

    async def after(self) -> Message:
        """What comes after it: the end of the connection, whenever that is."""
        await self._is_complete.wait()
        return await self._receive()
