"""Requests for inference: sent to the relay of the model's serving, answered byte for byte."""

import asyncio
import logging
from contextlib import suppress
from typing import Self

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.api.proxy import CONNECT_SECONDS, response_headers
from services.api.serving.asked import Asked, read_asked
from services.api.serving.locator import Locator, not_ready
from services.api.serving.metering import Meter
from services.api.serving.rates import RateLimits
from services.api.serving.servings import Route
from services.api.serving.usage import UsageLog
from services.api.settings import ApiSettings
from services.contracts.errors import BadGateway, GatewayTimeout, Unavailable
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.json_body import whole_body
from services.inference.relay_protocol import (
    ADAPTER_HEADER,
    EMBEDDINGS,
    REFUSAL_HEADER,
    Refusal,
)

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25
RESENDS = 2
"""Maximum resends of a request that an engine has started: the request may be what kills it."""


class Inference:
    """Sends requests to servings. Use as an async context manager."""

    def __init__(self, locator: Locator, usage: UsageLog, settings: ApiSettings) -> None:
        self.calls = 0
        self.usage = usage
        self.rates = RateLimits(settings.requests_per_minute, settings.tokens_per_minute)
        self._locator = locator
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=CONNECT_SECONDS,
                sock_read=self._settings.serving_silence_seconds,
            ),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def answer(self, path: str, receive: Receive, principal: str) -> Response:
        """The response to a request whose body is still to be read.

        Raises the `TemperError` to respond with. A client that goes away ends its generation.
        """
        self.rates.admit(principal)
        if self.calls >= self._settings.max_serving_calls:
            limit = f"{self._settings.max_serving_calls} requests to served models are in progress"
            raise Unavailable(limit, code="too_many_requests")
        self.calls += 1
        try:
            asked = await read_asked(await whole_body(receive))
            reply = await while_connected(receive, self._reply(path, asked))
        except BaseException as error:
            self.calls -= 1
            if isinstance(error, ClientGone):
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            raise
        return RelayedResponse(self, reply, asked, principal)

    async def _reply(self, path: str, asked: Asked) -> aiohttp.ClientResponse:
        """The head of the engine's response; the engine is looked for again when it is gone."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.serving_wait_seconds
        resends = 0
        while True:
            route = await self._locator.route_to(asked.model, path, deadline)
            try:
                reply = await self._send(path, route, asked)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                logger.info("the serving of %s is gone: %r", asked.model, error)
            except aiohttp.ServerTimeoutError as error:
                raise GatewayTimeout(
                    f"{asked.model!r} was silent for longer than TEMPER_SERVING_SILENCE_SECONDS"
                ) from error
            except aiohttp.ClientError as error:
                logger.warning("the serving of %s broke off: %r", asked.model, error)
                resends += 1
            else:
                if REFUSAL_HEADER not in reply.headers:
                    return reply
                resends += reply.headers[REFUSAL_HEADER] == Refusal.ENGINE_DIED
                reply.close()
            self._locator.forget(route)
            if resends > RESENDS:
                raise BadGateway(
                    f"the engine of {asked.model!r} died {resends} times in this request"
                )
            if loop.time() >= deadline:
                raise not_ready(asked.model, "its engine is gone, and its worker may be too")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, path: str, route: Route, asked: Asked) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("used outside of async with")
        headers = {
            "Authorization": f"Bearer {route.endpoint.secret}",
            "Content-Type": "application/json",
        }
        if route.adapter is not None:
            headers[ADAPTER_HEADER] = route.adapter.header()
        stops = () if path == EMBEDDINGS else route.stop_token_ids
        return await self._session.post(
            route.endpoint.url + path,
            data=asked.sent(stops),
            headers=headers,
            allow_redirects=False,
        )


class RelayedResponse(Response):
    """The response of an engine, whose head has arrived; streamed with backpressure.

    If the engine breaks off in the middle, the client's connection is aborted, so that a part is
    never mistaken for the whole.
    """

    def __init__(
        self, inference: Inference, reply: aiohttp.ClientResponse, asked: Asked, principal: str
    ) -> None:
        super().__init__(status_code=reply.status)
        limits = inference.rates.headers(principal)
        self.raw_headers = response_headers(reply.raw_headers)
        self.raw_headers += [(name.encode(), value.encode()) for name, value in limits.items()]
        self._inference = inference
        self._reply = reply
        self._model = asked.model
        self._principal = principal
        self._meter = Meter(added=asked.hides_usage)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the response on."""
        del scope
        try:
            with suppress(ClientGone):
                await while_connected(receive, self._pass_on(send))
        finally:
            self._inference.calls -= 1
            self._count()
            self._reply.close()  # of a response that was passed on completely, it does nothing

    async def _pass_on(self, send: Send) -> None:
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        content = self._reply.content
        try:
            is_whole = False
            while not is_whole:
                piece = await content.readany()
                is_whole = content.at_eof()
                passed = self._meter.passed(piece, last=is_whole)
                body = {"type": "http.response.body", "body": passed}
                await send({**body, "more_body": not is_whole})
        except (aiohttp.ClientError, TimeoutError) as error:
            # The server aborts the connection of an unfinished response.
            logger.warning("an engine broke off its response: %r", error)

    def _count(self) -> None:
        if not self._reply.ok:
            return
        usage = self._meter.usage()
        self._inference.usage.count(self._principal, self._model, usage)
        tokens = usage.prompt_tokens + usage.completion_tokens
        self._inference.rates.spend(self._principal, tokens)
