"""Who samples the turns of a job: a vLLM server of its own, or one elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from services.core.process.reporter import Reporter
from services.evaluator.evaluation.spec import LocalModel, RemoteEndpoint
from services.evaluator.rollout.context import context_length
from services.evaluator.rollout.spec import RolloutSpec
from services.evaluator.rollout.watched import WatchedEngine
from services.evaluator.serving import served
from services.inference.token_engine import CompletionsTokenEngine, VllmTokenEngine
from services.inference.vllm.launch import Routes


def open_engine(
    spec: RolloutSpec, job_dir: Path, reporter: Reporter, endpoint_key: str | None
) -> AbstractAsyncContextManager[WatchedEngine]:
    """The engine of a job, ready to be asked inside the block.

    ``endpoint_key`` is sent to a remote endpoint only. Entering raises ``JobFailed`` with the code
    ``engine_start_failed`` when a registered model cannot be served.
    """
    if isinstance(spec.model, LocalModel):
        return _own(spec.model, spec, job_dir, reporter)
    return _remote(spec.model, spec, endpoint_key)


@asynccontextmanager
async def _own(
    model: LocalModel, spec: RolloutSpec, job_dir: Path, reporter: Reporter
) -> AsyncIterator[WatchedEngine]:
    async with served(model, job_dir, reporter, Routes(tokens=True)) as (server, name):
        length = await context_length(server.base_url, server.api_key)
        async with VllmTokenEngine(
            server.base_url, server.api_key, name, max_connections=spec.max_concurrency
        ) as engine:
            yield WatchedEngine(
                engine,
                server.watch,
                context_length=length,
                stop_token_ids=model.adapter.stop_token_ids if model.adapter else (),
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
        yield WatchedEngine(engine, _never, context_length=length)


async def _never() -> None:
    """Of a server elsewhere, only asking shows whether it is gone."""
    await asyncio.Event().wait()
