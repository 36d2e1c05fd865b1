"""One of the policy's servers: its weights, and its requests while they are swapped."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from services.contracts.engine import Drafts
from services.contracts.errors import TemperError, Unavailable
from services.inference.relay import Destination
from services.inference.token_engine import PromptLogProbs
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.inference.vllm.counters import EngineCounters
from services.inference.vllm.server import VllmFailed
from services.trainer.rl.policy_server.gate import Gate
from services.trainer.rl.policy_server.handle import PolicyWeights, ServerHandle, ServerSpec
from services.trainer.rl.policy_server.sampling_time import ServerSampling
from services.trainer.rl.weight_sync import (
    Difference,
    Differences,
    EngineOutOfSync,
    LogprobReference,
    Tolerance,
    compare,
    rescore,
)

MAX_RECOVERIES = 3
DRAIN_SECONDS = 60.0
WAKE_SECONDS = 300.0
GUEST_SECONDS = 30.0
"""How long a guest request waits for a weight sync or restart to finish."""
GUEST_PRIORITY = 1
"""Rollouts have vLLM's default, 0; under contention, larger numbers wait or are preempted."""


@dataclass(frozen=True)
class ServerSync:
    """The outcome of loading new weights; ``restarted`` is the reason for a restart, if any."""

    paused_seconds: float
    difference: Difference
    restarted: str | None


class PolicyServer:
    """Samples with the weights that were loaded last; created by `start`.

    Requests wait while weights are swapped and verified and while the process restarts; requests in
    flight at a restart are sampled again from the start. A process that dies is replaced up to
    `MAX_RECOVERIES` times.
    """

    def __init__(
        self,
        spec: ServerSpec,
        weights: PolicyWeights,
        handle: ServerHandle,
        sampling: ServerSampling,
    ) -> None:
        self._sampling = sampling
        self._spec = spec
        self._weights = weights
        self._handle = handle
        self._gate = Gate()
        self._in_flight: Counter[str] = Counter()
        self._idle = asyncio.Event()
        self._idle.set()
        self._recoveries = 0
        self._scored: tuple[Sequence[Sequence[int]], Differences] | None = None
        self._drafting = True
        self._awake = asyncio.Event()
        self._awake.set()
        self._guests: set[asyncio.Task[Any]] = set()
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(
        cls, spec: ServerSpec, weights: PolicyWeights, sampling: ServerSampling
    ) -> Self:
        """Start the process, whose time with requests is counted as ``sampling``; raises
        `VllmFailed`."""
        return cls(spec, weights, await ServerHandle.start(spec, weights), sampling)

    async def stop(self) -> None:
        """Stop the process; no request may be in flight."""
        self._gate.close()
        self._watching.cancel()
        await asyncio.wait([self._watching])
        if not self._watching.cancelled():
            self._watching.exception()  # already raised by `watch`
        await self._handle.close()

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return self._in_flight.total()

    def samples_from(self, adapter: str) -> bool:
        """Whether an adapter is current or has requests in flight."""
        return self._weights.adapter == adapter or self._in_flight[adapter] > 0

    async def unload(self, adapter: str) -> None:
        """Stop serving an adapter, if it is served."""
        # A dead process serves none, and a restarted one only what is current.
        with suppress(EngineFailed):
            await self._handle.control.unload_adapter(adapter)

    async def context_length(self) -> int:
        """Maximum tokens of prompt and response together."""
        return await self._handle.control.context_length()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        while True:
            await self._gate.wait()
            handle = self._handle
            try:
                sampled = await self._sample(handle, token_ids, sampling)
            except EngineFailed:
                if not await self._replaced(handle):
                    raise
                continue
            await self._gate.wait()  # a failed verification discards the sample
            if handle is self._handle:
                return sampled

    @asynccontextmanager
    async def guest(self) -> AsyncIterator[Destination]:
        """Reserve the server, with its current weights, for the request of the calling task.

        Full weights may still change under it. It is cancelled when the server goes to sleep.
        Raises `EngineFailed`, and `Unavailable` during a weight sync or restart, or while the
        server sleeps.
        """
        try:
            async with asyncio.timeout(GUEST_SECONDS):
                await self._awake.wait()
                await self._gate.wait()
        except TimeoutError:
            message = "the policy's weights are being updated"
            raise Unavailable(message, code="model_not_ready") from None
        if not self._awake.is_set():
            raise Unavailable("the policy's engine is asleep", code="model_not_ready")
        server, task = self._handle.server, asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a running loop
        self._guests.add(task)
        try:
            with self._counted(self._weights.served_name) as name:
                fields: dict[str, str | int] = {"model": name, "priority": GUEST_PRIORITY}
                yield Destination(server.base_url.removesuffix("/v1"), server.api_key, fields)
        finally:
            self._guests.discard(task)

    async def _dismiss_guests(self) -> None:
        """Cancel the requests of guests."""
        guests = self._guests.copy()
        for guest in guests:
            guest.cancel()
        if guests:
            await asyncio.wait(guests)

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int) -> PromptLogProbs:
        """See `VllmTokenEngine.prompt_log_probs`."""
        await self._gate.wait()
        name = self._weights.served_name
        return await self._handle.engine.prompt_log_probs(token_ids, top_k, model=name)

    async def load(
        self, weights: PolicyWeights, reference: LogprobReference, tolerance: Tolerance
    ) -> ServerSync:
        """Sample from ``weights`` from now on, verified; see `PolicyEngine.load`."""
        async with self._gate.exclusive():
            if not self._awake.is_set():
                await self._wake()
            paused, problem = 0.0, None
            try:
                before = await self._before(reference)
                changes = weights.changes
                whole = changes is None or changes.base != self._weights.version
                paused = await self._handle.swap(
                    self._spec, weights, reference, self._sampling, whole=whole
                )
                difference = await self._compare(weights, reference, before)
                if not difference.within(tolerance):
                    problem = f"its {difference}"
            except EngineFailed as error:
                problem = error.message
            self._weights = weights
            if problem is not None:
                if self._spec.direct is not None:
                    self._spec.direct.fail(problem)
                await self._restart()
                difference = await self._compare(weights, reference)
            if not difference.within(tolerance):
                raise EngineOutOfSync(
                    f"version {weights.version} of the weights: the engine was restarted "
                    f"because {problem}; after the restart, {difference}"
                )
            return ServerSync(paused, difference, problem)

    async def _before(self, reference: LogprobReference) -> Differences | None:
        """What this process computes for the probes under the weights before an update, if the
        learner knows it, too: from the last comparison, if that was of the same probes."""
        if reference.previous is None:
            return None
        if self._scored is not None and self._scored[0] == reference.token_ids:
            return self._scored[1]
        return await rescore(self._handle.engine, self._weights.served_name, reference)

    async def _compare(
        self,
        weights: PolicyWeights,
        reference: LogprobReference,
        before: Differences | None = None,
    ) -> Difference:
        engine, self._scored = self._handle.engine, None
        difference, scored = await compare(engine, weights.served_name, reference, before)
        self._scored = reference.token_ids, scored
        return difference

    async def sleep(self) -> None:
        """Release GPU memory until `wake` or `load`; requests wait. If the process fails to, it is
        restarted first."""
        async with self._gate.exclusive():
            self._fall_asleep()
            await self._dismiss_guests()  # asleep, an engine would hold their requests
            try:
                await self._handle.control.sleep()
            except EngineFailed:
                await self._restart()
                self._fall_asleep()
                await self._handle.control.sleep()

    async def wake(self) -> None:
        """Resume, verified by a real request; restart the process if it fails."""
        async with self._gate.exclusive():
            await self._wake()

    @property
    def startup_seconds(self) -> float:
        """How long the running process took to start."""
        return self._handle.startup_seconds

    async def speculate(self, drafts: Drafts | None) -> str | None:
        """Restart the process with drafts, or without; if it does not start with them, as it was
        before: then return why. Raises `VllmFailed` or `EngineFailed` if it starts no more."""
        async with self._gate.exclusive():
            before, self._spec = self._spec, self._spec.with_drafts(drafts)
            self._drafting = True
            try:
                await self._restart()
            except TemperError as error:
                self._spec = before
                await self._restart()
                return error.message
            return None

    async def draft(self, *, on: bool) -> None:
        """Draft from now on, or not, if the process was started with drafts. Raises
        `EngineFailed`."""
        self._drafting = on
        if self._spec.drafts is not None:
            await self._handle.control.draft(on=on)

    async def counters(self) -> EngineCounters:
        """What the running process has generated; raises `EngineFailed`."""
        return await self._handle.control.counters()

    async def watch(self) -> None:
        """Never return; raises `VllmFailed` or `EngineFailed` once the process cannot be
        replaced."""
        await asyncio.shield(self._watching)

    async def _watch(self) -> None:
        while True:
            handle = self._handle
            with suppress(VllmFailed):
                await handle.server.watch()
            await self._recover(handle)

    async def _sample(
        self, handle: ServerHandle, token_ids: Sequence[int], sampling: TurnSampling
    ) -> SampledTokens:
        version = self._weights.version
        with self._counted(self._weights.served_name) as name, self._sampling.request():
            return await handle.engine.generate_as(name, version, token_ids, sampling)

    @contextmanager
    def _counted(self, name: str) -> Iterator[str]:
        """Count a request in flight, which keeps the weights of this name loaded."""
        self._in_flight[name] += 1
        self._idle.clear()
        try:
            yield name
        finally:
            self._in_flight[name] -= 1
            if not self.in_flight:
                self._idle.set()

    async def _replaced(self, handle: ServerHandle) -> bool:
        """After a failed request: whether a new process can serve it."""
        await self._gate.wait()
        if handle is self._handle and await handle.ended():
            await self._recover(handle)
        return handle is not self._handle

    async def _recover(self, handle: ServerHandle) -> None:
        async with self._gate.exclusive():
            if handle is not self._handle:
                return
            if self._recoveries == MAX_RECOVERIES:
                raise await handle.last_death(MAX_RECOVERIES + 1)
            self._recoveries += 1
            await self._restart()

    async def _restart(self) -> None:
        with self._sampling.pause():
            await self._start_again()
        self._rise()
        if not self._drafting:
            await self.draft(on=False)

    async def _start_again(self) -> None:
        self._scored = None  # another process may round differently
        await self._handle.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._idle.wait()
        await self._handle.close()
        if self._spec.prepare is not None and self._weights.folder is not None:
            await self._spec.prepare(self._weights.version)
        try:
            self._handle = await ServerHandle.start(self._spec, self._weights)
        except TemperError as error:
            error.retryable = True  # an equal one has started before
            raise

    def _fall_asleep(self) -> None:
        self._awake.clear()
        self._sampling.set_awake(False)

    def _rise(self) -> None:
        self._awake.set()
        self._sampling.set_awake(True)

    async def _wake(self) -> None:
        try:
            async with asyncio.timeout(WAKE_SECONDS):
                await self._handle.control.wake()
                await self._handle.engine.generate_as(
                    self._weights.served_name, 0, [0], TurnSampling(max_tokens=1)
                )
            self._rise()
        except (EngineFailed, TimeoutError):
            await self._restart()
