"""The engine that samples the turns of a rollout job: a vLLM server of the job, or a remote one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pydantic import BaseModel

from services.contracts.errors import JobFailed
from services.core.process.reporter import Reporter
from services.evaluator.failures import FailureWatch, RequestFailure
from services.evaluator.rollout.local_engine import (
    LOCAL_RETRIES,
    RunningServer,
    open_local_engine,
)
from services.evaluator.rollout.spec import RolloutSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint, served
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import Retries, ServiceFailed
from services.inference.token_engine import CompletionsTokenEngine, VllmTokenEngine
from services.inference.token_engine.base import (
    EngineFailed,
    SampledTokens,
    TokenEngine,
    TurnSampling,
)
from services.inference.vllm.launch import Routes

UNABLE = "engine_without_token_ids"
"""The code of a server that can never be used."""


class WatchedEngine:
    """Wraps an engine and detects when further requests are pointless.

    ``context_length`` bounds prompt and response together, if it is known;
    ``stop_token_ids`` end a turn in addition to the chat template's.
    """

    def __init__(
        self,
        engine: TokenEngine,
        server_ends: Callable[[], Awaitable[None]],
        *,
        context_length: int | None,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        self.context_length = context_length
        self.stop_token_ids = tuple(stop_token_ids)
        self._engine = engine
        self._server_ends = server_ends
        self._failures = FailureWatch(answered=0)
        self._pointless: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        """Sample a continuation of ``token_ids``; raises `EngineFailed`."""
        try:
            sampled = await self._engine.generate(token_ids, sampling)
        except EngineFailed as error:
            self._note(error)
            raise
        self._failures.answered()
        return sampled

    async def watch(self) -> None:
        """Raise ``JobFailed`` or `VllmFailed` once no turn will be sampled any more."""
        ends = asyncio.ensure_future(self._server_ends())
        try:
            await asyncio.wait([ends, self._pointless], return_when=asyncio.FIRST_COMPLETED)
            for ended in (ends, self._pointless):
                if ended.done():
                    ended.result()
        finally:
            ends.cancel()

    def _note(self, error: EngineFailed) -> None:
        try:
            if error.code == UNABLE:
                raise JobFailed(error.message, code=UNABLE)
            self._failures.failed(RequestFailure(error.status, error.message))
        except JobFailed as end:
            if not self._pointless.done():
                self._pointless.set_exception(end)


def open_engine(
    spec: RolloutSpec, job_dir: Path, reporter: Reporter, endpoint_key: str | None
) -> AbstractAsyncContextManager[WatchedEngine]:
    """The engine of a job, ready inside the block.

    ``endpoint_key`` is sent to a remote endpoint only. Entering raises ``JobFailed`` with the code
    ``engine_start_failed`` when a registered model cannot be served.
    """
    if isinstance(spec.model, LocalModel):
        return open_own_engine(spec.model, spec.max_concurrency, job_dir, reporter)
    return _remote(spec.model, spec, endpoint_key)


@asynccontextmanager
async def open_own_engine(
    model: LocalModel, max_concurrency: int, job_dir: Path, reporter: Reporter
) -> AsyncIterator[WatchedEngine]:
    """A vLLM server of the job, replaced when it dies; see `open_engine`."""

    @asynccontextmanager
    async def start() -> AsyncIterator[RunningServer]:
        async with served(model, job_dir, reporter, Routes(tokens=True)) as (server, name):
            length = await context_length(server.base_url, server.api_key)
            async with VllmTokenEngine(
                server.base_url,
                server.api_key,
                name,
                retries=LOCAL_RETRIES,
                max_connections=max_concurrency,
            ) as engine:
                yield RunningServer(engine, server.watch, length)

    async with open_local_engine(start, reporter) as engine:
        yield WatchedEngine(
            engine,
            engine.watch,
            context_length=engine.context_length,
            stop_token_ids=model.stop_token_ids,
        )


@asynccontextmanager
async def _remote(
    endpoint: RemoteEndpoint, spec: RolloutSpec, key: str | None
) -> AsyncIterator[WatchedEngine]:
    base_url = str(endpoint.base_url).rstrip("/")
    length = await context_length(base_url, key, endpoint.model)
    async with CompletionsTokenEngine(
        base_url, key, endpoint.model, max_connections=spec.max_concurrency
    ) as engine:
        yield WatchedEngine(engine, never, context_length=length)


async def never() -> None:
    """A remote server has no process to watch."""
    await asyncio.Event().wait()


LOOK_UP_SECONDS = 10.0
LARGEST_ANSWER = 4 * 2**20


class _Card(BaseModel):
    id: str
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[_Card]


async def context_length(base_url: str, key: str | None, model: str | None = None) -> int | None:
    """The context length that the server reports, in tokens; None if it reports none.

    With ``model``, the one of that model.
    """
    service = JsonService(
        base_url,
        key,
        timeout=LOOK_UP_SECONDS,
        retries=Retries(attempts=1, deadline_seconds=LOOK_UP_SECONDS),
        connections=1,
        largest_answer=LARGEST_ANSWER,
    )
    try:
        async with service:
            cards = (await service.get(_Cards.model_validate_json, "/models")).value.data
    except ServiceFailed:
        return None
    known = [card.max_model_len for card in cards if model is None or card.id == model]
    return next((length for length in known if length is not None), None)
