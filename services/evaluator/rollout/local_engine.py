"""A vLLM server of a rollout job as a token engine; a server that dies is replaced in place."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field

from services.contracts.errors import TemperError
from services.core.process.reporter import Reporter
from services.inference.clients.retries import ServiceFailed, model_retries
from services.inference.token_engine.base import (
    EngineFailed,
    SampledTokens,
    TokenEngine,
    TurnSampling,
)
from services.inference.token_engine.vllm import TURN_TIMEOUT
from services.inference.vllm.server import VllmFailed

MAX_REPLACEMENTS = 3
"""Per attempt; a server that dies more often ends it, and the next attempt continues."""
DEATH_SECONDS = 60.0
"""How long a turn that got no answer waits for its server to be found dead."""
LOCAL_RETRIES = model_retries(attempts=3, deadline_seconds=2 * TURN_TIMEOUT, first_wait_seconds=0.1)
"""A local server that cannot be reached has died; long retries would only delay its replacement."""


@dataclass
class RunningServer:
    """A server that is ready. ``watch`` never returns; it raises `VllmFailed` when the server
    exits."""

    engine: TokenEngine
    watch: Callable[[], Awaitable[None]]
    context_length: int | None
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    replaced: asyncio.Event = field(default_factory=asyncio.Event)


StartServer = Callable[[], AbstractAsyncContextManager[RunningServer]]


class LocalEngine:
    """Samples from one server at a time; created by `open_local_engine`.

    Turns in flight when a server dies are sampled again, from their beginning, by its replacement.
    """

    def __init__(
        self, start: StartServer, first: RunningServer, stack: AsyncExitStack, reporter: Reporter
    ) -> None:
        self._start = start
        self._running = first
        self._stack = stack
        self._reporter = reporter
        self._replacements = 0

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and response together, if the server tells."""
        return self._running.context_length

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        while True:
            running = self._running
            try:
                return await running.engine.generate(token_ids, sampling)
            except EngineFailed as error:
                if not _is_outage(error) or not await self._is_replaced(running):
                    raise

    async def watch(self) -> None:
        """Replace servers that die, and never return.

        Raises `VllmFailed` for the last of too many deaths, and ``JobFailed`` when a replacement
        does not start.
        """
        while True:
            running = self._running
            try:
                await running.watch()
            except VllmFailed as death:
                running.dead.set()
                try:
                    self._running = await self._replacement(death)
                finally:
                    running.replaced.set()

    async def _replacement(self, death: VllmFailed) -> RunningServer:
        if self._replacements == MAX_REPLACEMENTS:
            deaths = f"vLLM died {MAX_REPLACEMENTS + 1} times in this attempt"
            error = VllmFailed(f"{deaths}, at last: {death.message}", death.last_lines)
            error.retryable = True
            raise error from death
        self._replacements += 1
        which = f"replacement {self._replacements} of {MAX_REPLACEMENTS}"
        self._reporter.message(
            f"{death.message}; starting {which}", "warn", log_tail=death.last_lines
        )
        try:
            running = await self._stack.enter_async_context(self._start())
        except TemperError as error:
            error.retryable = True  # an equal one has started before
            raise
        self._reporter.phase("playing")
        return running

    async def _is_replaced(self, running: RunningServer) -> bool:
        """Whether the server has died and another is there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DEATH_SECONDS):
                await running.dead.wait()
        if running.dead.is_set():
            await running.replaced.wait()  # at most the time that a start may take
        return self._running is not running


def _is_outage(error: EngineFailed) -> bool:
    """Whether the server gave no answer: after retries, not because of this request."""
    return isinstance(error.__cause__, ServiceFailed) and error.__cause__.transient


@asynccontextmanager
async def open_local_engine(start: StartServer, reporter: Reporter) -> AsyncIterator[LocalEngine]:
    """The engine, ready inside the block, while its `watch` runs; raises what ``start`` raises."""
    # Clients of dead servers stay open until the end: turns may still be asking them.
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(start())
        yield LocalEngine(start, first, stack, reporter)
