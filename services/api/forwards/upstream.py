"""The connections to one tool service, and what is said when it fails."""

import logging
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

import aiohttp

from services.api.forwards.service import ToolService
from services.contracts.errors import BadGateway, GatewayTimeout, TemperError, Unavailable

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
# Shorter than servers wait before they close: a connection that is used again is never one that
# the other side is just closing.
IDLE_SECONDS = 4.0
# The client's own words, or none.
NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Upstream:
    """A tool service with its connections. Use in an ``async with``."""

    def __init__(self, service: ToolService) -> None:
        self.service = service
        self.calls = 0
        self._key = [("Authorization", f"Bearer {service.api_key}")] if service.api_key else []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            auto_decompress=False,
            skip_auto_headers=NOT_ADDED,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(
        self, path: str, headers: Sequence[tuple[str, str]], body: AsyncIterator[bytes]
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer once its headers are there.

        Raises aiohttp's errors; `failure` turns them into ours.
        """
        if self._session is None:
            raise RuntimeError("used outside of its async with")
        answer = await self._session.post(
            self.service.url + path,
            headers=[*headers, *self._key],
            data=body,
            allow_redirects=False,
        )
        if answer.status == 401:
            logger.error("the %s refuses the gateway's key", self.service.name)
        return answer

    def failure(self, error: Exception) -> TemperError:
        """What to tell a client whose request failed before an answer began."""
        name = self.service.name
        logger.warning("%s at %s: %r", name, self.service.url, error)
        match error:
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return Unavailable(
                    f"the {name} cannot be reached; {self.service.start}",
                    code=f"{name}_unavailable",
                )
            case TimeoutError():
                return GatewayTimeout(
                    f"the {name} did not answer in {self.service.seconds:g} s, the longest that "
                    "TEMPER_TOOL_CALL_SECONDS allows"
                )
        return BadGateway(f"the {name} broke off before it answered")
