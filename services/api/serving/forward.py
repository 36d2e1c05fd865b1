"""Forwards inference requests to the relay of the model's serving, byte for byte."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import aiohttp
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.api.serving.locator import Locator, not_ready
from services.api.serving.metering import Meter, TokenUsage
from services.api.serving.rate_limits import RateLimits
from services.api.serving.request_body import InferenceRequest, parse_request
from services.api.serving.servings import Route
from services.api.serving.usage import UsageLog
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import BadGateway, GatewayTimeout, Unavailable
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.json_body import whole_body
from services.core.web.relay import relay_body, response_headers, to_asgi, upstream_session
from services.inference.relay_protocol import (
    ADAPTER_HEADER,
    GENERATING,
    REFUSAL_HEADER,
    Refusal,
)

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.25
MAX_RESENDS = 2
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
        silence = self._settings.serving_silence_seconds
        self._session = upstream_session(silence_seconds=silence)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def answer(self, path: str, receive: Receive, principal: str) -> Response:
        """The response to a request whose body is still to be read.

        Raises the `TemperError` to respond with. A client disconnect aborts the generation.
        """
        self._begin_call()
        try:
            self.rates.admit(principal)
            body = await whole_body(receive)
            request = await parse_request(body, self._settings.max_choices)
            reply = await while_connected(receive, self._reply(path, request))
        except BaseException as error:
            self.calls -= 1
            if isinstance(error, ClientGone):
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            raise
        return RelayedResponse(self, reply, request, principal)

    @asynccontextmanager
    async def open(self, path: str, body: JsonObject) -> AsyncIterator[aiohttp.ClientResponse]:
        """The engine's response to a request of the gateway's own, whose head has arrived.

        The caller has admitted the key by `rates`, and reports the usage by `record`. Leaving the
        block aborts the generation. Raises the `TemperError` to respond with.
        """
        request = InferenceRequest(str(body["model"]), json.dumps(body).encode(), body)
        self._begin_call()
        try:
            reply = await self._reply(path, request)
            try:
                yield reply
            finally:
                reply.close()  # no-op for a completely read response
        finally:
            self.calls -= 1

    def record(self, principal: str, model: str, usage: TokenUsage) -> None:
        """Count the tokens of a response."""
        self.usage.count(principal, model, usage)
        self.rates.spend(principal, usage.prompt_tokens + usage.completion_tokens)

    def _begin_call(self) -> None:
        if self.calls >= self._settings.max_serving_calls:
            limit = f"{self._settings.max_serving_calls} requests to served models are in progress"
            raise Unavailable(limit, code="too_many_requests")
        self.calls += 1

    async def _reply(self, path: str, request: InferenceRequest) -> aiohttp.ClientResponse:
        """The head of the engine's response; when the engine has died, its successor is used."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.serving_wait_seconds
        resends = 0
        while True:
            route = await self._locator.route_to(request.model, path, deadline)
            try:
                reply = await self._send(path, route, request)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                logger.info("the serving of %s is gone: %r", request.model, error)
            except aiohttp.ServerTimeoutError as error:
                raise GatewayTimeout(
                    f"{request.model!r} was silent for longer than TEMPER_SERVING_SILENCE_SECONDS"
                ) from error
            except aiohttp.ClientError as error:
                logger.warning("the serving of %s disconnected: %r", request.model, error)
                resends += 1
            else:
                if REFUSAL_HEADER not in reply.headers:
                    return reply
                resends += reply.headers[REFUSAL_HEADER] == Refusal.ENGINE_DIED
                reply.close()
            self._locator.invalidate(route)
            if resends > MAX_RESENDS:
                raise BadGateway(
                    f"the engine of {request.model!r} died {resends} times in this request"
                )
            if loop.time() >= deadline:
                raise not_ready(request.model, "its engine has died, and its worker may have too")
            await asyncio.sleep(RETRY_SECONDS)

    async def _send(
        self, path: str, route: Route, request: InferenceRequest
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("used outside of async with")
        headers = {
            "Authorization": f"Bearer {route.endpoint.secret}",
            "Content-Type": "application/json",
        }
        if route.adapter is not None:
            headers[ADAPTER_HEADER] = route.adapter.header()
        stops = route.stop_token_ids if path in GENERATING else ()
        return await self._session.post(
            route.endpoint.url + path,
            data=request.upstream_body(stops),
            headers=headers,
            allow_redirects=False,
        )


class RelayedResponse(Response):
    """The response of an engine, whose head has arrived; streamed with backpressure.

    If the engine disconnects mid-response, the client's connection is aborted, so that a partial
    response is never mistaken for a complete one.
    """

    def __init__(
        self,
        inference: Inference,
        reply: aiohttp.ClientResponse,
        request: InferenceRequest,
        principal: str,
    ) -> None:
        super().__init__(status_code=reply.status)
        limits = inference.rates.headers(principal)
        self.raw_headers = response_headers(reply.raw_headers)
        self.raw_headers += [(name.encode(), value.encode()) for name, value in limits.items()]
        self._inference = inference
        self._reply = reply
        self._model = request.model
        self._principal = principal
        self._meter = Meter(strip_usage=request.strips_usage)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay the response."""
        del scope
        try:
            with suppress(ClientGone):
                await while_connected(receive, self._stream(send))
        finally:
            self._inference.calls -= 1
            self._count_usage()
            self._reply.close()  # no-op for a completely relayed response

    async def _stream(self, send: Send) -> None:
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        try:
            await relay_body(self._reply, to_asgi(send), self._meter.feed)
        except (aiohttp.ClientError, TimeoutError) as error:
            # The server aborts the connection of an unfinished response.
            logger.warning("an engine aborted its response: %r", error)

    def _count_usage(self) -> None:
        if not self._reply.ok:
            return
        self._inference.record(self._principal, self._model, self._meter.usage())
