"""A vLLM server process of the policy: its specification, and a handle on it."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from services.contracts.engine import Drafts, VllmOptions
from services.core.artifacts import ModelSource
from services.inference.clients.retries import model_retries
from services.inference.token_engine import VllmTokenEngine
from services.inference.token_engine.base import EngineFailed
from services.inference.vllm.control import VllmControl
from services.inference.vllm.launch import AdapterSlots, Routes
from services.inference.vllm.server import StartupProgress, VllmFailed, VllmServer
from services.trainer.rl.direct import DirectTransport
from services.trainer.rl.policy_server.sampling_time import ServerSampling
from services.trainer.rl.weight_sync import LogprobReference, WeightChanges, prefill

BASE = "policy"
"""The served name of the model without an adapter."""
LOCAL_RETRIES = model_retries(attempts=3, deadline_seconds=7200.0, first_wait_seconds=0.1)
"""A local server that cannot be reached has died; long retries would only delay its replacement."""


@dataclass(frozen=True)
class PolicyWeights:
    """A version of the policy. ``folder`` holds full weights, or those of the adapter served as
    ``adapter``; None: the initial model. ``changes`` are what full weights change, if known."""

    version: int
    folder: Path | None = None
    adapter: str | None = None
    changes: WeightChanges | None = None

    @property
    def served_name(self) -> str:
        """The model name that requests for this version use."""
        return self.adapter or BASE


@dataclass(frozen=True)
class ServerSpec:
    """How to start a server; ``devices`` None: all visible GPUs.

    With ``slots`` the policy is an adapter over ``model``; ``tokenizer`` is a folder with a
    tokenizer. The model's own code may run where it is ``trusted``. ``direct`` sends weights
    without files; ``prepare`` makes sure that those of a version are in their folder.
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
    trusted: bool = False
    exact: bool = False
    direct: DirectTransport | None = None
    prepare: Callable[[int], Awaitable[object]] | None = None

    @property
    def drafts(self) -> Drafts | None:
        """The drafts that a server is started with."""
        speculation = self.options.speculation
        return speculation if isinstance(speculation, Drafts) else None

    def with_drafts(self, drafts: Drafts | None) -> "ServerSpec":
        """The same with other drafts, or with none."""
        return replace(self, options=self.options.model_copy(update={"speculation": drafts}))

    def server(self, weights: PolicyWeights) -> VllmServer:
        """A server that starts with ``weights``; adapters are loaded after the start."""
        folder = self.model if self.slots else weights.folder or self.model
        return VllmServer(
            self.runtime_python,
            ModelSource(path=folder, tokenizer=self.tokenizer, trusted=self.trusted),
            BASE,
            [],
            self.job_dir,
            self.options,
            on_progress=self.on_progress,
            routes=Routes(
                tokens=True,
                weights=True,
                sleep=self.sleep,
                adapters=self.slots,
                tools=True,
                priorities=True,
            ),
            devices=self.devices,
            log=self.log,
            exact=self.exact,
        )


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
        self.startup_seconds = 0.0

    @classmethod
    async def start(cls, spec: ServerSpec, weights: PolicyWeights) -> Self:
        """Start a server that samples from ``weights``.

        Raises `VllmFailed`, or `EngineFailed` if it rejects an adapter.
        """
        begun = time.monotonic()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(spec.server(weights))
            engine = VllmTokenEngine(server.base_url, server.api_key, BASE, retries=LOCAL_RETRIES)
            await stack.enter_async_context(engine)
            control = await stack.enter_async_context(VllmControl(server.base_url, server.api_key))
            handle = cls(server, engine, control, stack)
            if weights.adapter is not None and weights.folder is not None:
                await control.load_adapter(weights.adapter, weights.folder)
            elif spec.slots is None:
                await control.name_version(weights.version)
            handle.startup_seconds = time.monotonic() - begun
            handle._stack = stack.pop_all()
            return handle

    async def kill(self) -> None:
        """Kill the process; requests in flight fail."""
        await self.server.__aexit__(None, None, None)

    async def close(self) -> None:
        """Stop the process and the clients; no request may be in flight."""
        await self._stack.aclose()

    async def ended(self) -> bool:
        """Whether the process has ended or is unhealthy."""
        return self.server.ended or not await self.control.healthy()

    async def last_death(self, deaths: int) -> EngineFailed:
        """The failure of an engine that died too often in this attempt; another may succeed."""
        message = f"vLLM died {deaths} times in this attempt"
        if self.server.ended:  # not only unhealthy
            try:
                await self.server.watch()
            except VllmFailed as death:
                message = f"{message}, most recently: {death.message}"
        failure = EngineFailed(message)
        failure.retryable = True
        return failure

    async def swap(
        self,
        spec: ServerSpec,
        weights: PolicyWeights,
        reference: LogprobReference,
        sampling: ServerSampling,
        *,
        whole: bool,
    ) -> float:
        """Sample from ``weights`` from now on; return how many seconds the server was paused. Only
        what they change is loaded, unless ``whole``.

        An adapter is loaded under a new name, beside the previous one: requests in flight finish
        with theirs. Full weights replace the previous ones: requests in flight continue from their
        tokens with the new ones. Raises `EngineFailed`.
        """
        if weights.folder is None:
            return 0.0
        if weights.adapter is not None:
            await self.control.load_adapter(weights.adapter, weights.folder)
            return 0.0
        if spec.prepare is not None and not (spec.direct and spec.direct.works):
            await spec.prepare(weights.version)
        await prefill(self.engine, BASE, reference)
        paused = time.monotonic()
        with sampling.pause():
            await self.control.pause()
            if spec.direct is not None and spec.direct.works:
                gpus = spec.devices or ()
                await spec.direct.send(spec.log, gpus, self.control, weights.version)
            else:
                changes = None if whole else weights.changes
                base, names = (None, None) if changes is None else (changes.base, changes.names)
                await self.control.update(weights.folder, weights.version, base, names)
            await self.control.reset_prefix_cache()
            await self.control.set_version(weights.version)
            await self.control.resume()
        return time.monotonic() - paused
