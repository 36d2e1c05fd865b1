"""A client of the sandbox's scripts."""

from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from services.campaigns.gateway import certificates
from services.campaigns.run.signals import Waiting
from services.campaigns.settings import CampaignSettings
from services.contracts.base import ErrorBody
from services.contracts.errors import JobFailed
from services.contracts.sandbox.scripts import SCRIPT_KEY_HEADER, Script, StartScript

TIME_LIMIT = httpx.Timeout(60.0, connect=5.0)
_MESSAGE_CHARACTERS = 500


class ScriptService:
    """Starts, polls and kills scripts. Use it as an async context manager.

    Every method raises `Waiting` while the sandbox is unavailable or full, and `JobFailed` if it
    rejects a request, which only its operator can change.
    """

    def __init__(self, settings: CampaignSettings) -> None:
        key, script_key = settings.sandbox_api_key, settings.campaign_script_key
        headers = {SCRIPT_KEY_HEADER: script_key.get_secret_value() if script_key else ""}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        # The operator's own service: bypass the environment's proxies.
        self._http = httpx.AsyncClient(
            base_url=settings.campaign_script_url or settings.sandbox_url,
            headers=headers,
            timeout=TIME_LIMIT,
            trust_env=False,
            verify=certificates(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def start(self, script_id: str, request: StartScript) -> None:
        """Start a script, unless it was started before."""
        await self._ask("PUT", script_id, json=request.model_dump(mode="json"))

    async def get(self, script_id: str) -> Script | None:
        """The state of a script; None if the sandbox does not know it."""
        answer = await self._ask("GET", script_id)
        return None if answer is None else Script.model_validate_json(answer.content)

    async def download(self, script_id: str, path: str, target: Path) -> None:
        """Download a file of a script to ``target`` atomically."""
        answer = await self._ask("GET", f"{script_id}/files/{path}")
        if answer is None:
            raise Waiting("waiting for the sandbox, which has lost a file of a script")
        partial = target.with_suffix(".partial")
        partial.write_bytes(answer.content)
        partial.replace(target)

    async def delete(self, script_id: str) -> None:
        """Kill and delete a script, if the sandbox knows it."""
        await self._ask("DELETE", script_id)

    async def _ask(self, method: str, path: str, json: object = None) -> httpx.Response | None:
        """The response; None for 404."""
        try:
            answer = await self._http.request(method, f"/v1/scripts/{path}", json=json)
        except httpx.TransportError as error:
            raise Waiting(f"waiting for the sandbox: {type(error).__name__}: {error}") from error
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.is_server_error or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise Waiting(f"waiting for the sandbox: {_message(answer)}")
        if not answer.is_success:
            raise JobFailed(f"the sandbox refuses a script: {_message(answer)}", code="refused")
        return answer


def _message(answer: httpx.Response) -> str:
    try:
        return ErrorBody.model_validate_json(answer.content).error.message[:_MESSAGE_CHARACTERS]
    except ValueError:
        return f"status {answer.status_code}"
