"""A vLLM process of the policy, from its start to its end."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from services.inference.clients.model_server import model_retries
from services.inference.token_engine import VllmTokenEngine
from services.inference.vllm.server import VllmServer
from services.trainer.rl.engine.control import Control
from services.trainer.rl.engine.server_plan import BASE, ServerPlan, Weights

LOCAL_RETRIES = model_retries(attempts=3, deadline_seconds=7200.0, first_wait_seconds=0.1)
"""A server of this host that cannot be reached has ended: asking on would only keep its requests
from its successor."""


class ServerLife:
    """A running server with its clients; made by `start`."""

    def __init__(
        self, server: VllmServer, engine: VllmTokenEngine, control: Control, stack: AsyncExitStack
    ) -> None:
        self.server = server
        self.engine = engine
        self.control = control
        self._stack = stack
        self._adapters: set[str] = set()

    @classmethod
    async def start(cls, plan: ServerPlan, weights: Weights) -> Self:
        """Start a server that samples from ``weights``.

        Raises `VllmFailed`, or `EngineFailed` when it does not take an adapter.
        """
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(plan.server(weights))
            engine = VllmTokenEngine(server.base_url, server.api_key, BASE, retries=LOCAL_RETRIES)
            await stack.enter_async_context(engine)
            control = await stack.enter_async_context(Control(server.base_url, server.api_key))
            life = cls(server, engine, control, stack)
            if weights.adapter is not None and weights.folder is not None:
                await life.load_adapter(weights.adapter, weights.folder)
            elif plan.slots is None:
                await control.name_version(weights.version)
            life._stack = stack.pop_all()
            return life

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
