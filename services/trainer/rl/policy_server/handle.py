"""A vLLM server process of the policy: its specification, a handle on it, and its control routes.

The routes for weights, adapters and sleep are not part of vLLM's stable API; written for vLLM 0.32.
A pause with mode=keep also discards the prefix cache and the KV cache of running requests; they
continue from their tokens under the new weights and report which version sampled which token.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import httpx

from services.contracts.base import JsonObject
from services.contracts.engine import VllmOptions
from services.core.artifacts import ModelSource
from services.inference.clients.json_service import model_retries
from services.inference.token_engine import VllmTokenEngine
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.launch import AdapterSlots, Routes
from services.inference.vllm.server import StartupProgress, VllmServer

BASE = "policy"
"""The served name of the model without an adapter."""
CONTROL_TIMEOUT_SECONDS = 600.0
"""Of one call; loading tens of gigabytes from a slow disk takes minutes."""
MAX_REASON = 500
LOCAL_RETRIES = model_retries(attempts=3, deadline_seconds=7200.0, first_wait_seconds=0.1)
"""A local server that cannot be reached has died; long retries would only delay its replacement."""


@dataclass(frozen=True)
class PolicyWeights:
    """A version of the policy. ``folder`` holds full weights, or those of the adapter served as
    ``adapter``; None: the initial model."""

    version: int
    folder: Path | None = None
    adapter: str | None = None

    @property
    def served_name(self) -> str:
        """The model name that requests for this version use."""
        return self.adapter or BASE


@dataclass(frozen=True)
class ServerSpec:
    """How to start a server; ``devices`` None: all visible GPUs.

    With ``slots`` the policy is an adapter over ``model``; ``tokenizer`` is a folder with a
    tokenizer.
    """

    runtime_python: Path
    model: Path
    tokenizer: Path
    job_dir: Path
    log: str
    options: VllmOptions
    devices: tuple[str, ...] | None
    slots: AdapterSlots | None
    sleep: bool
    on_progress: Callable[[StartupProgress], None] | None

    def server(self, weights: PolicyWeights) -> VllmServer:
        """A server that starts with ``weights``; adapters are loaded after the start."""
        whole = None if self.slots else weights.folder
        return VllmServer(
            self.runtime_python,
            ModelSource(path=whole or self.model, tokenizer=self.tokenizer),
            BASE,
            [],
            self.job_dir,
            self.options,
            on_progress=self.on_progress,
            routes=Routes(tokens=True, weights=True, sleep=self.sleep, adapters=self.slots),
            devices=self.devices,
            log=self.log,
        )


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
        """Continue."""
        await self._post("/resume")

    async def reload(self, folder: Path) -> None:
        """Load all weights from a folder."""
        arguments = {"weights_path": str(folder)}
        await self._post("/collective_rpc", {"method": "reload_weights", "kwargs": arguments})

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

    async def sleep(self) -> None:
        """Freeze running requests and release GPU memory: weights move to host memory."""
        await self._post("/sleep?level=1&mode=keep")

    async def wake(self) -> None:
        """Reacquire the memory and continue."""
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


class ServerHandle:
    """A running server with its clients; created by `start`."""

    def __init__(
        self,
        server: VllmServer,
        engine: VllmTokenEngine,
        control: VllmControl,
        stack: AsyncExitStack,
    ) -> None:
        self.server = server
        self.engine = engine
        self.control = control
        self._stack = stack
        self._adapters: set[str] = set()

    @classmethod
    async def start(cls, spec: ServerSpec, weights: PolicyWeights) -> Self:
        """Start a server that samples from ``weights``.

        Raises `VllmFailed`, or `EngineFailed` if it rejects an adapter.
        """
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(spec.server(weights))
            engine = VllmTokenEngine(server.base_url, server.api_key, BASE, retries=LOCAL_RETRIES)
            await stack.enter_async_context(engine)
            control = await stack.enter_async_context(VllmControl(server.base_url, server.api_key))
            handle = cls(server, engine, control, stack)
            if weights.adapter is not None and weights.folder is not None:
                await handle.load_adapter(weights.adapter, weights.folder)
            elif spec.slots is None:
                await control.set_version(weights.version)
            handle._stack = stack.pop_all()
            return handle

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a new name; raises `EngineFailed`."""
        await self.control.load_adapter(name, folder)
        self._adapters.add(name)

    async def unload(self, name: str) -> None:
        """Stop serving an adapter, if it is served; raises `EngineFailed`."""
        if name in self._adapters:
            self._adapters.remove(name)
            await self.control.unload_adapter(name)

    async def kill(self) -> None:
        """Kill the process; requests in flight fail."""
        await self.server.__aexit__(None, None, None)

    async def close(self) -> None:
        """Stop the process and the clients; no request may be in flight."""
        await self._stack.aclose()

    async def ended(self) -> bool:
        """Whether the process has ended or is unhealthy."""
        return self.server.ended or not await self.control.healthy()
