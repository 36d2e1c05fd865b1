"""Creates jobs and files through the gateway exactly once: every request has an idempotency key."""

import asyncio
import contextlib
import ssl
from functools import cache
from pathlib import Path

import httpx

from services.campaigns.settings import CampaignSettings
from services.contracts.base import JsonObject
from services.contracts.data.files import FilePurpose
from services.contracts.errors import TemperError

ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 0.5
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
TIME_LIMIT = httpx.Timeout(300.0, connect=5.0)


class GatewayRefused(TemperError):
    """The gateway rejected a request; ``code`` and message are the gateway's."""

    code = "gateway_refused"


class GatewayAway(TemperError):
    """The gateway did not respond."""

    code = "gateway_away"


class Gateway:
    """A client of the gateway. Repeating a request with the same key returns the first response."""

    def __init__(self, settings: CampaignSettings) -> None:
        self._url = settings.gateway_url
        key = settings.gateway_api_key
        self._headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}

    async def create(self, path: str, body: JsonObject, key: str) -> str:
        """Create a job; return its id."""
        return await self._post(path, key, json=body)

    async def upload(self, path: Path, filename: str, purpose: FilePurpose, key: str) -> str:
        """Upload a file; return its id."""
        content = await asyncio.to_thread(path.read_bytes)
        form = {"purpose": purpose.value}
        return await self._post("/v1/files", key, data=form, files={"file": (filename, content)})

    async def delete(self, path: str, key: str) -> None:
        """Delete an object; raises `GatewayRefused` also when it does not exist."""
        await self._send("DELETE", path, key)

    async def _post(self, path: str, key: str, **content: object) -> str:
        return await self._send("POST", path, key, **content)

    async def _send(self, method: str, path: str, key: str, **content: object) -> str:
        headers = {**self._headers, "Idempotency-Key": key}
        # The operator's own service: bypass the environment's proxies.
        async with httpx.AsyncClient(
            base_url=self._url, timeout=TIME_LIMIT, trust_env=False, verify=certificates()
        ) as http:
            for attempt in range(ATTEMPTS):
                if attempt:
                    await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
                try:
                    answer = await http.request(method, path, headers=headers, **content)  # type: ignore[arg-type]  # keywords of httpx
                except httpx.TransportError as error:
                    reason = f"{self._url} was not reached: {error}"
                    continue
                reason = f"{self._url} answered with {answer.status_code}"
                if answer.status_code not in RETRIED_STATUSES:
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        return _id_of(answer)  # else a page of something in between
        raise GatewayAway(reason)


@cache
def certificates() -> ssl.SSLContext:
    """Certificates for verifying the gateway; loading them takes longer than a request."""
    return httpx.create_ssl_context(trust_env=False)


def _id_of(answer: httpx.Response) -> str:
    if answer.is_success:
        return str(answer.json()["id"])
    try:
        error = answer.json()["error"]
        message, param, code = str(error["message"]), error.get("param"), error.get("code")
    except (ValueError, KeyError, TypeError):
        message, param, code = f"status {answer.status_code}", None, None
    raise GatewayRefused(f"{param}: {message}" if param else message, code=code)
