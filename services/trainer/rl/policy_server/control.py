"""vLLM's routes that swap_weights weights: nothing of its stable interface.

They are those of vLLM 0.32, tried on a CPU: a pause that keeps requests also drops what the prefix
cache holds and what the requests have computed; they go on from their tokens, under the new
weights, and tell which version sampled which token.
"""

from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from services.contracts.base import JsonObject
from services.inference.token_engine.interface import EngineFailed

SECONDS = 600.0
"""Longest wait for one call; loading tens of gigabytes from a slow disk takes minutes."""
KEPT_REASON = 500


class VllmControl:
    """Asks one server that was started with `Routes.weights`, `adapters` or `sleep`.

    ``base_url`` goes up to and including /v1. All calls raise `EngineFailed`. Use it as an async
    context manager.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url.removesuffix("/v1"),
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=SECONDS,
            # A proxy of the environment must not be asked for a loopback address.
            trust_env=False,
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

    async def pause(self) -> None:
        """Freeze what is running and what comes."""
        await self._post("/pause?mode=keep")

    async def resume(self) -> None:
        """Let everything go on."""
        await self._post("/resume")

    async def reload(self, folder: Path) -> None:
        """Take all weights from a folder."""
        arguments = {"weights_path": str(folder)}
        await self._post("/collective_rpc", {"method": "reload_weights", "kwargs": arguments})

    async def reset_prefix_cache(self) -> None:
        """Forget what was computed with the old weights."""
        answer = await self._post("/reset_prefix_cache?reset_running_requests=true")
        if not answer.json()["success"]:
            raise EngineFailed("vLLM did not reset its prefix cache")

    async def name_version(self, version: int) -> None:
        """Say which version of the weights samples from now on."""
        await self._post("/update_weight_version", {"new_version": str(version)})

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a name that was not in use before."""
        await self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})

    async def unload_adapter(self, name: str) -> None:
        """Serve an adapter no longer."""
        await self._post("/v1/unload_lora_adapter", {"lora_name": name})

    async def sleep(self) -> None:
        """Freeze what is running, and give the GPU's memory back: weights go to the host's."""
        await self._post("/sleep?level=1&mode=keep")

    async def wake(self) -> None:
        """Take the memory again and go on."""
        await self._post("/wake_up")
        if (await self._get("/is_sleeping")).json()["is_sleeping"]:
            raise EngineFailed("vLLM did not wake up")

    async def healthy(self) -> bool:
        """Whether the server answers, and its engine runs."""
        try:
            await self._get("/health")
        except EngineFailed:
            return False
        return True

    async def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return int((await self._get("/v1/models")).json()["data"][0]["max_model_len"])

    async def _post(self, path: str, body: JsonObject | None = None) -> httpx.Response:
        return await self._ask("POST", path, json=body)

    async def _get(self, path: str) -> httpx.Response:
        return await self._ask("GET", path)

    async def _ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, **content)
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise EngineFailed(f"vLLM did not answer {path}: {what}") from error
        if answer.status_code != HTTPStatus.OK:
            reason = " ".join(answer.text.split())[:KEPT_REASON]
            raise EngineFailed(f"vLLM answered {answer.status_code} to {path}: {reason}")
        return answer
