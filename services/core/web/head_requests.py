"""HEAD, as load balancers and download tools send it: the head of what GET would answer."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware that answers HEAD with the head of GET's response, and ends it there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass other requests on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                begun.set()

        answering = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, send_head))
        waiting = asyncio.ensure_future(begun.wait())
        try:
            await asyncio.wait([answering, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not begun.is_set():
                await answering  # it failed before a response
        finally:
            waiting.cancel()
            answering.cancel()  # a stream would go on without a reader
            await asyncio.gather(answering, waiting, return_exceptions=True)
