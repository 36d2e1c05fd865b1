"""The routes of a vLLM server that pause it, swap its weights and load adapters.

They are not part of vLLM's stable API; written for vLLM 0.32. A pause with mode=keep also discards
the prefix cache and the KV cache of running requests; they continue from their tokens under the new
weights and report which version sampled which token.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import httpx

from services.contracts.base import JsonObject
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.counters import EngineCounters, engine_counters

CONTROL_TIMEOUT_SECONDS = 600.0
"""Timeout of one call; loading tens of gigabytes from a slow disk takes minutes."""
MAX_REASON = 500


class VllmControl:
    """A client for a server that was started with `Routes.weights`, `adapters` or `sleep`.

    ``base_url`` includes /v1. All calls raise `EngineFailed`. Use it as an async context manager.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base_url.removesuffix("/v1"),
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=CONTROL_TIMEOUT_SECONDS,
            # Loopback requests must not go through a proxy from the environment.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def pause(self) -> None:
        """Freeze running requests and hold new ones."""
        await self._post("/pause?mode=keep")

    async def resume(self) -> None:
        """Resume."""
        await self._post("/resume")

    async def name_version(self, version: int) -> None:
        """Tell the engine which version of the weights it started with."""
        await self._post("/init_weight_transfer_engine", {"init_info": {"version": version}})
        await self.set_version(version)

    async def update(
        self, folder: Path, version: int, base: int | None, names: Sequence[str] | None
    ) -> None:
        """Load ``version`` of the weights from a folder: the tensors of ``names`` over those of
        version ``base``, or all. The engine refuses another base than it has."""
        fields: JsonObject = {"folder": str(folder), "version": version}
        if names is not None:
            fields |= {"base": base, "names": list(names)}
        async with self.updating():
            await self.receive(fields)

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """An update of weights, which the calls of `receive` in the block give."""
        await self._post("/start_weight_update")
        yield
        await self._post("/finish_weight_update")
        await self._post("/collective_rpc", {"method": "reset_encoder_cache"})

    async def receive(self, update: JsonObject) -> None:
        """Load what an update of `services.inference.weights` has."""
        await self._post("/update_weights", {"update_info": update})

    async def join_group(self, group: JsonObject) -> None:
        """Have the engine's GPUs join a group of NCCL, while the learner does."""
        await self._post("/init_weight_transfer_engine", {"init_info": {"group": group}})

    async def reset_prefix_cache(self) -> None:
        """Discard what was computed with the old weights."""
        answer = await self._post("/reset_prefix_cache?reset_running_requests=true")
        if not answer.json()["success"]:
            raise EngineFailed("vLLM did not reset its prefix cache")

    async def set_version(self, version: int) -> None:
        """Set the weight version that sampled tokens are labeled with."""
        await self._post("/update_weight_version", {"new_version": str(version)})

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a new name."""
        await self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})

    async def unload_adapter(self, name: str) -> None:
        """Stop serving an adapter."""
        await self._post("/v1/unload_lora_adapter", {"lora_name": name})

    async def draft(self, *, on: bool) -> None:
        """Draft tokens from now on, or not; of a server that was started with drafts."""
        await self._post("/collective_rpc", {"method": "switch_drafts", "kwargs": {"on": on}})

    async def counters(self) -> EngineCounters:
        """What the engine has generated so far."""
        return engine_counters((await self._get("/metrics")).text)

    async def sleep(self) -> None:
        """Freeze running requests and release GPU memory: weights move to host memory."""
        await self._post("/sleep?level=1&mode=keep")

    async def wake(self) -> None:
        """Reacquire the memory and resume."""
        await self._post("/wake_up")
        if (await self._get("/is_sleeping")).json()["is_sleeping"]:
            raise EngineFailed("vLLM did not wake up")

    async def healthy(self) -> bool:
        """Whether the server answers and its engine is running."""
        try:
            await self._get("/health")
        except EngineFailed:
            return False
        return True

    async def context_length(self) -> int:
        """Maximum tokens of prompt and response together."""
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
            reason = " ".join(answer.text.split())[:MAX_REASON]
            raise EngineFailed(f"vLLM answered {answer.status_code} to {path}: {reason}")
        return answer
