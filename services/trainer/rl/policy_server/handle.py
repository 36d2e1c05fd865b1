"""What the servers of a policy have in common, and how one is started."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.contracts.engine import VllmOptions
from services.core.artifacts import ModelSource
from services.inference.clients.model_server import model_retries
from services.inference.token_engine import VllmTokenEngine
from services.inference.vllm.launch import AdapterSlots, Routes
from services.inference.vllm.server import StartupProgress, VllmServer
from services.trainer.rl.policy_server.control import VllmControl

BASE = "policy"
"""The name that the model itself, without an adapter, is served under."""


@dataclass(frozen=True)
class PolicyWeights:
    """A version of the policy. ``folder`` holds all its weights, or those of an adapter that is
    served under the name ``adapter``; null: the model that training began with."""

    version: int
    folder: Path | None = None
    adapter: str | None = None

    @property
    def served_name(self) -> str:
        """What requests for this version ask for."""
        return self.adapter or BASE


@dataclass(frozen=True)
class ServerSpec:
    """How a server is started; ``devices`` None: with all GPUs that are visible.

    ``slots`` make the policy an adapter over ``model``; ``tokenizer`` is a folder that has one.
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
        """A server that starts with ``weights``, but for an adapter, which is loaded later."""
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


LOCAL_RETRIES = model_retries(attempts=3, deadline_seconds=7200.0, first_wait_seconds=0.1)
"""A server of this host that cannot be reached has ended: asking on would only keep its requests
from its successor."""


class ServerHandle:
    """A running server with its clients; made by `start`."""

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

        Raises `VllmFailed`, or `EngineFailed` when it does not take an adapter.
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
                await control.name_version(weights.version)
            handle._stack = stack.pop_all()
            return handle

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under a new name; raises `EngineFailed`."""
        await self.control.load_adapter(name, folder)
        self._adapters.add(name)

    async def unload(self, name: str) -> None:
        """Serve an adapter no longer, if it is served; raises `EngineFailed`."""
        if name in self._adapters:
            self._adapters.remove(name)
            await self.control.unload_adapter(name)

    async def kill(self) -> None:
        """End the process; requests that were under way fail."""
        await self.server.__aexit__(None, None, None)

    async def close(self) -> None:
        """End the process and the clients; nothing may be under way."""
        await self._stack.aclose()

    async def ended(self) -> bool:
        """Whether the process has ended, or is about to."""
        return self.server.ended or not await self.control.healthy()
