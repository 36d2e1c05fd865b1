"""The policy as a token engine, on one vLLM server or several."""

import asyncio
import itertools
import shutil
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self, TypeVar

from services.contracts.engine import Drafts, VllmOptions
from services.inference.relay import Destination
from services.inference.token_engine import PromptLogProbs
from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.inference.vllm.counters import EngineCounters
from services.inference.vllm.launch import AdapterSlots
from services.inference.vllm.model_config import read_model_config
from services.inference.vllm.server import LOG, StartupProgress
from services.trainer.rl.direct import DirectTransport
from services.trainer.rl.policy_server.handle import PolicyWeights, ServerSpec
from services.trainer.rl.policy_server.sampling_time import SamplingTime
from services.trainer.rl.policy_server.server import PolicyServer
from services.trainer.rl.weight_sync import (
    GENERATED,
    LogprobReference,
    SyncReport,
    Tolerance,
    WeightChanges,
)

Result = TypeVar("Result")


class PolicyEngine:
    """A `TokenEngine` whose weights follow the learner's.

    Starts one server per set of ``devices`` (GPUs by index or UUID, shared by tensor parallelism;
    None: one server on all visible GPUs, or on the CPU). Requests are balanced by load; turns of
    one session stay on one server, for prefix-cache affinity.

    ``model`` is the folder of the initial weights, labeled ``version``. With ``lora_rank`` the
    policy is an adapter over it, of at most that rank, ``adapters`` of which can be loaded at once.
    ``tokenizer`` defaults to ``model``, whose own code may run where it is ``trusted``. ``sleep``
    enables `sleep` on GPUs. An ``exact`` engine computes what the learner does, bit by bit. For
    ``direct`` and ``prepare`` see `ServerSpec`.

    Entering raises `VllmFailed`. Leaving stops every process.
    """

    def __init__(
        self,
        runtime_python: Path,
        model: Path,
        job_dir: Path,
        options: VllmOptions | None = None,
        *,
        tokenizer: Path | None = None,
        trusted: bool = False,
        lora_rank: int | None = None,
        adapters: int = 2,
        devices: Sequence[Sequence[str]] | None = None,
        sleep: bool = False,
        version: int = 0,
        tolerance: Tolerance | None = None,
        exact: bool = False,
        direct: DirectTransport | None = None,
        prepare: Callable[[int], Awaitable[object]] | None = None,
        on_progress: Callable[[StartupProgress], None] | None = None,
    ) -> None:
        options = options or VllmOptions()
        sets = [None] if devices is None else [tuple(each) for each in devices]
        self._specs = [
            ServerSpec(
                runtime_python,
                model,
                tokenizer or model,
                job_dir,
                LOG if number == 0 else f"vllm-{number}.log",
                options,
                each,
                None if lora_rank is None else AdapterSlots(lora_rank, adapters),
                sleep,
                on_progress if number == 0 else None,
                trusted,
                exact,
                None if lora_rank is not None else direct,
                None if lora_rank is not None else prepare,
            )
            for number, each in enumerate(sets)
        ]
        self._adapters = None if lora_rank is None else AdapterStore(job_dir / "adapters")
        self._tolerance = tolerance or Tolerance.of(float32=exact or _in_float32(model, options))
        self._servers: list[PolicyServer] = []
        self._sessions = StickyRouter()
        self._sampling = SamplingTime()
        self.version = version
        self.context_length = 0
        """Tokens of prompt and answer together."""

    async def __aenter__(self) -> Self:
        try:
            await _gather_all([self._start(spec) for spec in self._specs])
            self.context_length = await self._servers[0].context_length()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`.

        Each token carries the version of the weights that sampled it: with full weights it can
        change within a turn, with adapters between turns.
        """
        server = self._sessions.route(sampling.session, self._servers)
        return await server.generate(token_ids, sampling)

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        """Log-probabilities of ``token_ids`` under the current weights; raises `EngineFailed`."""
        server = self._sessions.route(None, self._servers)
        return await server.prompt_log_probs(token_ids, top_k)

    def guest(self) -> AbstractAsyncContextManager[Destination]:
        """Reserve a server for a request from outside the rollouts; see `PolicyServer.guest`."""
        return self._sessions.route(None, self._servers).guest()

    async def load(
        self,
        version: int,
        folder: Path,
        expect: LogprobReference,
        changes: WeightChanges | None = None,
    ) -> SyncReport:
        """Sample from the weights in ``folder`` from now on, labeled ``version``.

        Every server is compared with the learner's ``expect``; one that differs or fails is
        restarted from ``folder``. Results sampled in between are discarded and sampled again.
        Raises `EngineOutOfSync` if a server still differs, `VllmFailed` or `EngineFailed` if it
        does not start.

        A folder of full weights must stay until the next `load` returns; adapters are copied.
        A server with the base of ``changes`` loads only these, any other all weights.
        """
        begun = time.monotonic()
        weights = PolicyWeights(version, folder, changes=changes)
        if self._adapters is not None:
            weights = self._adapters.add(version, folder)
        # Scoring a probe with what was generated after it samples one token more.
        expect = expect.cut(self.context_length - GENERATED - 1)
        loads = [server.load(weights, expect, self._tolerance) for server in self._servers]
        done = await _gather_all(loads)
        self.version = version
        if self._adapters is not None:
            await self._adapters.drop_unused(self._servers)
        return SyncReport(
            version,
            seconds=time.monotonic() - begun,
            paused_seconds=max(each.paused_seconds for each in done),
            largest_difference=max(each.difference.largest for each in done),
            restarted=next((each.restarted for each in done if each.restarted), None),
        )

    async def sleep(self) -> None:
        """Release GPU memory until `wake` or `load`; requests wait and continue afterwards. A pause
        on CPUs. Raises `EngineFailed`."""
        await _gather_all([server.sleep() for server in self._servers])

    async def wake(self) -> None:
        """Resume, verified by a real request: a server that fails it is restarted.
        Raises `VllmFailed`."""
        await _gather_all([server.wake() for server in self._servers])

    @property
    def sampling_seconds(self) -> float:
        """Seconds so far in which a server sampled for a rollout."""
        return self._sampling.seconds

    @property
    def startup_seconds(self) -> float:
        """How long its slowest server took to start."""
        return max(server.startup_seconds for server in self._servers)

    async def speculate(self, drafts: Drafts | None) -> str | None:
        """Restart the servers with drafts, or without. If one does not start with them, all go on
        without: then return why. Raises `VllmFailed` or `EngineFailed` if one starts no more."""
        failures = await _gather_all([server.speculate(drafts) for server in self._servers])
        failure = next((each for each in failures if each is not None), None)
        if failure is not None and len(self._servers) > 1:
            await _gather_all([server.speculate(None) for server in self._servers])
        return failure

    async def draft(self, *, on: bool) -> None:
        """Draft from now on, or not, with servers that were started with drafts. Raises
        `EngineFailed`."""
        await _gather_all([server.draft(on=on) for server in self._servers])

    async def counters(self) -> EngineCounters:
        """What the servers have generated since their starts; raises `EngineFailed`."""
        counted = await _gather_all([server.counters() for server in self._servers])
        return sum(counted, EngineCounters())

    async def watch(self) -> None:
        """Never return; raises `VllmFailed` or `EngineFailed` once a server has died too often or
        cannot be restarted."""
        watches = [asyncio.create_task(server.watch()) for server in self._servers]
        try:
            ended, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
        finally:
            for each in watches:
                each.cancel()

    async def _start(self, spec: ServerSpec) -> None:
        sampling = self._sampling.add_server()
        weights = PolicyWeights(self.version)
        self._servers.append(await PolicyServer.start(spec, weights, sampling))

    async def _stop(self) -> None:
        await _gather_all([server.stop() for server in self._servers])


async def _gather_all(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run all to completion; then raise the first error, if any."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]


def _in_float32(model: Path, options: VllmOptions) -> bool:
    if options.dtype == "auto":
        return read_model_config(model).is_float32
    return options.dtype == "float32"


MAX_SESSIONS = 65_536
"""Sessions with a known server; evicted in LRU order."""


class StickyRouter:
    """Sticky routing: balances sessions, and keeps each on the server that has its prefix
    cached."""

    def __init__(self) -> None:
        self._servers: OrderedDict[str, PolicyServer] = OrderedDict()

    def route(self, session: str | None, servers: Sequence[PolicyServer]) -> PolicyServer:
        """The session's server; the least loaded for a new session."""
        known = self._servers.get(session) if session is not None else None
        server = known or min(servers, key=lambda each: each.in_flight)
        if session is not None:
            self._servers[session] = server
            self._servers.move_to_end(session)
            if len(self._servers) > MAX_SESSIONS:
                self._servers.popitem(last=False)
        return server


class AdapterStore:
    """Keeps a copy of each adapter that is in use, under a unique name and path.

    vLLM keys its caches by both, and re-reads an adapter that was evicted from memory while a long
    turn still samples from it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Path] = {}
        self._numbers = itertools.count()

    def add(self, version: int, folder: Path) -> PolicyWeights:
        """Copy an adapter; the copy is what is served."""
        name = f"policy-{version}-{next(self._numbers)}"
        copy = self._folder / name
        if copy.exists():  # left by a killed process
            shutil.rmtree(copy)
        shutil.copytree(folder, copy)
        self._kept[name] = copy
        return PolicyWeights(version, copy, name)

    async def drop_unused(self, servers: Sequence[PolicyServer]) -> None:
        """Unload and delete the adapters that no server samples from."""
        for name, copy in list(self._kept.items()):
            if any(server.samples_from(name) for server in servers):
                continue
            for server in servers:
                await server.unload(name)
            shutil.rmtree(copy)
            del self._kept[name]
