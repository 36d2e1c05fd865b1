"""The policy as it is sampled, on one server or several."""

import asyncio
import itertools
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from services.contracts.engine import VllmOptions
from services.inference.token_engine import PromptLogProbs
from services.inference.token_engine.interface import SampledTokens, TurnSampling
from services.inference.vllm.launch import AdapterSlots
from services.inference.vllm.model_config import read_model_config
from services.inference.vllm.server import LOG, StartupProgress
from services.trainer.rl.policy_server.handle import PolicyWeights, ServerSpec
from services.trainer.rl.policy_server.server import PolicyServer
from services.trainer.rl.policy_server.verification import GENERATED, LogprobReference, Tolerance

Result = TypeVar("Result")


@dataclass(frozen=True)
class SyncReport:
    """How the engine took a version of the weights.

    ``seconds`` is the whole of it; during ``paused_seconds`` nothing was sampled. Differences are
    absolute log-probabilities between the engine and the learner. ``restarted`` says why a server
    had to be started anew, null if none had.
    """

    version: int
    seconds: float
    paused_seconds: float
    mean_difference: float
    largest_difference: float
    restarted: str | None


class PolicyEngine:
    """A `TokenEngine` whose weights follow the learner's.

    It starts one server for each set of ``devices`` (GPUs by index or UUID, which a server shares
    by tensor parallelism; None: one server, on all that are visible, or on the CPU). A request
    goes to the server that has the fewest; turns of one session stay together.

    ``model`` is the folder of the weights that are sampled from at first, as version ``version``.
    With ``lora_rank`` what is loaded are adapters over it, of that rank at most, of which
    ``adapters`` can be in use at once. ``tokenizer`` is the folder of the tokenizer, else
    ``model``. ``sleep`` makes `sleep` possible on GPUs.

    Entering raises `VllmFailed`. Leaving ends every process.
    """

    def __init__(
        self,
        runtime_python: Path,
        model: Path,
        job_dir: Path,
        options: VllmOptions | None = None,
        *,
        tokenizer: Path | None = None,
        lora_rank: int | None = None,
        adapters: int = 2,
        devices: Sequence[Sequence[str]] | None = None,
        sleep: bool = False,
        version: int = 0,
        tolerance: Tolerance | None = None,
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
            )
            for number, each in enumerate(sets)
        ]
        self._adapters = None if lora_rank is None else AdapterStore(job_dir / "adapters")
        self._tolerance = tolerance or Tolerance.of(float32=_in_float32(model, options))
        self._servers: list[PolicyServer] = []
        self._sessions = StickyRouter()
        self.version = version
        self.context_length = 0
        """Tokens of prompt and answer together."""

    async def __aenter__(self) -> Self:
        try:
            await _all([self._start(spec) for spec in self._specs])
            self.context_length = await self._servers[0].context_length()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample what follows ``token_ids``; raises `EngineFailed`.

        A token has the version of the weights that sampled it: within a turn it changes where
        whole weights were loaded, and between turns where adapters were.
        """
        server = self._sessions.route(sampling.session, self._servers)
        return await server.generate(token_ids, sampling)

    async def prompt_log_probs(self, token_ids: Sequence[int], top_k: int = 1) -> PromptLogProbs:
        """What the current weights say of ``token_ids``; raises `EngineFailed`."""
        server = self._sessions.route(None, self._servers)
        return await server.prompt_log_probs(token_ids, top_k)

    async def load(self, version: int, folder: Path, expect: LogprobReference) -> SyncReport:
        """Sample from the weights in ``folder`` from now on, and call them ``version``.

        What the servers then say of the learner's probes is compared with what the learner says;
        a server that differs, or fails, is started anew from ``folder``. Results that came in
        between are discarded and sampled again. Raises `EngineOutOfSync` when it differs still,
        `VllmFailed` or `EngineFailed` when it does not start.

        A folder of whole weights must stay until the next `load` has returned; of an adapter a
        copy is kept here.
        """
        begun = time.monotonic()
        weights = PolicyWeights(version, folder)
        if self._adapters is not None:
            weights = self._adapters.take(version, folder)
        expect = expect.cut(self.context_length - GENERATED)
        loads = [server.load(weights, expect, self._tolerance) for server in self._servers]
        done = await _all(loads)
        self.version = version
        if self._adapters is not None:
            await self._adapters.drop_unused(self._servers)
        return SyncReport(
            version,
            seconds=time.monotonic() - begun,
            paused_seconds=max(each.paused_seconds for each in done),
            mean_difference=max(each.difference.mean for each in done),
            largest_difference=max(each.difference.largest for each in done),
            restarted=next((each.restarted for each in done if each.restarted), None),
        )

    async def sleep(self) -> None:
        """Give the GPUs' memory back until `wake` or `load`. Requests wait; those under way go on
        afterwards. Without a GPU this is a pause. Raises `EngineFailed`."""
        await _all([server.sleep() for server in self._servers])

    async def wake(self) -> None:
        """Go on, which a real request verifies: a server that does not answer it is started anew.

        Raises `VllmFailed`.
        """
        await _all([server.wake() for server in self._servers])

    async def watch(self) -> None:
        """Return never; raises `VllmFailed` or `EngineFailed` when a server ended by itself, again
        and again, or could not be replaced."""
        watches = [asyncio.create_task(server.watch()) for server in self._servers]
        try:
            ended, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
        finally:
            for each in watches:
                each.cancel()

    async def _start(self, spec: ServerSpec) -> None:
        self._servers.append(await PolicyServer.start(spec, PolicyWeights(self.version)))

    async def _stop(self) -> None:
        await _all([server.stop() for server in self._servers])


async def _all(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Do all of it, to the end; then raise the first error if there was one."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]


def _in_float32(model: Path, options: VllmOptions) -> bool:
    if options.dtype == "auto":
        return read_model_config(model).is_float32
    return options.dtype == "float32"


REMEMBERED = 65_536
"""StickyRouter whose server is known; the one that was asked longest ago is forgotten first."""


class StickyRouter:
    """Spreads requests, and keeps a session on the server that has its beginning in its cache."""

    def __init__(self) -> None:
        self._servers: OrderedDict[str, PolicyServer] = OrderedDict()

    def route(self, session: str | None, servers: Sequence[PolicyServer]) -> PolicyServer:
        """The server of the session; the one with the fewest requests when it has none yet."""
        known = self._servers.get(session) if session is not None else None
        server = known or min(servers, key=lambda each: each.under_way)
        if session is not None:
            self._servers[session] = server
            self._servers.move_to_end(session)
            if len(self._servers) > REMEMBERED:
                self._servers.popitem(last=False)
        return server


class AdapterStore:
    """Keeps a copy of each adapter that is in use, under a name and a path of its own.

    vLLM keys its caches by both, and reads an adapter again when it has pushed it out of memory
    while a long turn still samples from it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Path] = {}
        self._numbers = itertools.count()

    def take(self, version: int, folder: Path) -> PolicyWeights:
        """Copy an adapter; the copy is what is to be served."""
        name = f"policy-{version}-{next(self._numbers)}"
        copy = self._folder / name
        if copy.exists():  # of a process that was killed
            shutil.rmtree(copy)
        shutil.copytree(folder, copy)
        self._kept[name] = copy
        return PolicyWeights(version, copy, name)

    async def drop_unused(self, servers: Sequence[PolicyServer]) -> None:
        """Forget the adapters that no server samples from any more."""
        for name, copy in list(self._kept.items()):
            if any(server.samples_from(name) for server in servers):
                continue
            for server in servers:
                await server.unload(name)
            shutil.rmtree(copy)
            del self._kept[name]
