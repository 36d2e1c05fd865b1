"""The server that answers a batch: a vLLM server of the job, or a remote one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.batches.batches import BatchEndpoint
from services.evaluator.batch.spec import BatchSpec
from services.evaluator.child_process import ChildContext
from services.evaluator.serving import LocalModel, served
from services.evaluator.warm_serving import WarmServing
from services.inference.chat_answers import read_items
from services.inference.clients.chat import LARGEST_ANSWER
from services.inference.clients.json_service import JsonService, ServiceAnswer
from services.inference.clients.retries import model_retries
from services.inference.vllm.launch import Routes

ATTEMPT_DEADLINES = 3
"""Maximum total time of a request, retries included, in multiples of its time limit."""


@dataclass(frozen=True)
class BatchServer:
    """Sends request bodies to one model, with retries.

    ``name`` is the server's name of the model. ``stop_token_ids`` end a response as the model was
    trained, unless the request has its own. ``watch`` raises once the server is permanently gone.
    """

    service: JsonService
    path: str
    read: Callable[[bytes], JsonObject]
    name: str
    stop_token_ids: tuple[int, ...]
    watch: Callable[[], Coroutine[Any, Any, object]]

    async def send(self, body: JsonObject) -> ServiceAnswer[JsonObject]:
        """The server's response, with the requested model's name; raises ``ServiceFailed``."""
        asked = {**body, "model": self.name}
        if self.stop_token_ids and asked.get("stop_token_ids") is None:
            asked["stop_token_ids"] = list(self.stop_token_ids)
        answer = await self.service.post(asked, self.read, self.path)
        if "model" in answer.value:
            answer.value["model"] = body["model"]
        return answer


def open_server(spec: BatchSpec, context: ChildContext) -> AbstractAsyncContextManager[BatchServer]:
    """The server of the batch, ready inside the block.

    Entering raises ``JobFailed`` with the code ``engine_start_failed`` when a registered model
    cannot be served, and ``needs_device`` when the serving that answers it has ended.
    """
    if isinstance(spec.model, LocalModel):
        return _local(spec.model, spec, context)
    if isinstance(spec.model, WarmServing):
        return _warm(spec.model, spec)
    return _remote(str(spec.model.base_url), spec, context)


@asynccontextmanager
async def _remote(
    base_url: str, spec: BatchSpec, context: ChildContext
) -> AsyncIterator[BatchServer]:
    async with _service(base_url, context.endpoint_key, spec) as service:
        yield BatchServer(
            service, _path(spec), _reader(spec.endpoint), spec.model_name, (), asyncio.Event().wait
        )


@asynccontextmanager
async def _local(
    model: LocalModel, spec: BatchSpec, context: ChildContext
) -> AsyncIterator[BatchServer]:
    async with (
        served(model, context.job_dir, context.reporter, Routes(tools=True)) as (server, name),
        _service(server.base_url, server.api_key, spec) as service,
    ):
        embeds = spec.endpoint is BatchEndpoint.EMBEDDINGS
        stops = () if embeds else tuple(model.stop_token_ids)
        yield BatchServer(service, _path(spec), _reader(spec.endpoint), name, stops, server.watch)


@asynccontextmanager
async def _warm(serving: WarmServing, spec: BatchSpec) -> AsyncIterator[BatchServer]:
    endpoint = serving.endpoint()
    url, headers = f"{endpoint.url}/v1", serving.headers
    embeds = spec.endpoint is BatchEndpoint.EMBEDDINGS
    stops = () if embeds else tuple(serving.stop_token_ids)
    async with _service(url, endpoint.secret, spec, headers, direct=True) as service:
        yield BatchServer(
            service, _path(spec), _reader(spec.endpoint), spec.model_name, stops, serving.watch
        )


def _service(
    base_url: str,
    api_key: str | None,
    spec: BatchSpec,
    headers: Mapping[str, str] | None = None,
    *,
    direct: bool = False,
) -> JsonService:
    return JsonService(
        base_url.rstrip("/"),
        api_key,
        timeout=spec.timeout_seconds,
        retries=model_retries(deadline_seconds=ATTEMPT_DEADLINES * spec.timeout_seconds),
        connections=spec.max_concurrency,
        largest_answer=LARGEST_ANSWER,
        adapts=True,
        headers=headers,
        direct=direct,
    )


def _path(spec: BatchSpec) -> str:
    """Below the base URL, which includes /v1."""
    return spec.endpoint.removeprefix("/v1")


def _reader(endpoint: BatchEndpoint) -> Callable[[bytes], JsonObject]:
    """Reads the answers of an endpoint; one without its items is none."""
    name = "data" if endpoint is BatchEndpoint.EMBEDDINGS else "choices"

    def read(body: bytes) -> JsonObject:
        return read_items(body, name)

    return read
