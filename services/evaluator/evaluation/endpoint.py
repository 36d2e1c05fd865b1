"""The model under evaluation: a vLLM server of the job, or a remote endpoint."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.evaluation.results import ToolUse
from services.contracts.failures import LeftOut
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec, EvaluationSpec
from services.evaluator.failures import RequestFailure
from services.evaluator.serving import LocalModel, served
from services.inference.causes import cause_of
from services.inference.clients.chat import ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed, model_retries
from services.inference.seeds import SEEDS, derived_seed
from services.inference.vllm.server import VllmServer
from services.rollouts.chat import check_template_reads
from services.rollouts.loop import ENGINE


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. ``latency_seconds`` is the latency of the successful attempt; token counts are
    the endpoint's, None if it reports none."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int
    latency_seconds: float
    tools: ToolUse | None = None
    environments: tuple[EnvironmentRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The sample has no answer, after all retries; ``left_out`` is set where the infrastructure is
    to blame."""

    failure: RequestFailure
    attempts: int
    tools: ToolUse | None = None
    left_out: LeftOut | None = None


FIRST_TURN = 0
QUEUE_SECONDS = 600.0
SLOWEST_TOKENS_PER_SECOND = 10.0
"""The slowest generation that an attempt waits for, after the time in the queue."""


class Endpoint:
    """Samples one model of one server with the settings of a benchmark."""

    def __init__(
        self,
        client: InferenceClient,
        model: str,
        spec: BenchmarkSpec,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        self._client = client
        self._model = model
        self._settings = spec.sampling.model_dump()
        self._seed = spec.sampling.seed
        if spec.chat_template_kwargs:
            self._settings["chat_template_kwargs"] = spec.chat_template_kwargs
        if stop_token_ids:
            self._settings["stop_token_ids"] = list(stop_token_ids)

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        """Sample a reply to a conversation; one without text, such as a tool call, is empty.

        Every sample of every row has a seed of its own, which does not depend on the model. It is
        that of the first turn of a conversation with tools.
        """
        settings = self._settings
        if self._seed is not None:
            seed = derived_seed(self._seed, sample.index, sample.sample, FIRST_TURN)
            settings = {**settings, "seed": seed % SEEDS}
        request = ChatRequest(model=self._model, messages=list(messages), **settings)
        try:
            completion = await self._client.chat(request)
        except ServiceFailed as error:
            failure = RequestFailure(error.status, error.message)
            return Unanswered(failure, error.attempts, left_out=_left_out(error))
        usage = completion.usage
        return Answer(
            text=completion.content or "",
            finish_reason=completion.finish_reason,
            prompt_tokens=usage.prompt if usage else None,
            completion_tokens=usage.completion if usage else None,
            attempts=completion.attempts,
            latency_seconds=completion.latency_seconds,
        )


def _left_out(error: ServiceFailed) -> LeftOut | None:
    cause = cause_of(error)
    if cause is None:
        return None
    return LeftOut(source=ENGINE, cause=cause, message=error.message)


class EndpointEngine:
    """The engine of an evaluation without tools: one model of one server for all benchmarks."""

    def __init__(
        self, client: InferenceClient, model: str, stop_token_ids: Sequence[int] = ()
    ) -> None:
        self._client = client
        self._model = model
        self._stop_token_ids = stop_token_ids

    def asked_by(self, spec: BenchmarkSpec) -> Endpoint:
        """The model as a benchmark asks it."""
        return Endpoint(self._client, self._model, spec, self._stop_token_ids)

    async def watch(self) -> None:
        """Never return: a remote server has no process to watch."""
        await asyncio.Event().wait()


def connect(
    base_url: str, api_key: str | None, max_tokens: int, connections: int
) -> InferenceClient:
    """A client whose timeouts allow for answers of this length."""
    attempt_seconds = QUEUE_SECONDS + max_tokens / SLOWEST_TOKENS_PER_SECOND
    patience = model_retries(deadline_seconds=3 * attempt_seconds)
    return InferenceClient(
        base_url,
        api_key,
        attempt_seconds,
        retries=patience,
        max_connections=connections,
        adapts=True,
    )


def open_engine(
    spec: EvaluationSpec, job_dir: Path, reporter: Reporter, endpoint_key: str | None
) -> AbstractAsyncContextManager[EndpointEngine]:
    """The model of the evaluation, ready inside the block.

    ``endpoint_key`` is sent to a remote endpoint only. Entering raises ``JobFailed`` with the code
    ``engine_start_failed`` when a local model cannot be served.
    """
    if isinstance(spec.model, LocalModel):
        return _served(spec.model, spec, job_dir, reporter)
    return _remote(str(spec.model.base_url), spec.model.model, endpoint_key, spec)


@asynccontextmanager
async def _remote(
    base_url: str, model: str, key: str | None, spec: EvaluationSpec
) -> AsyncIterator[EndpointEngine]:
    async with connect(base_url, key, longest_answer(spec), spec.max_concurrency) as client:
        yield EndpointEngine(client, model)


@asynccontextmanager
async def _served(
    model: LocalModel, spec: EvaluationSpec, job_dir: Path, reporter: Reporter
) -> AsyncIterator[EndpointEngine]:
    if (folder := model.tokenizer or model.path) is not None:
        for each in spec.benchmarks:
            check_template_reads(folder, each.chat_template_kwargs)
    longest = longest_answer(spec)
    async with (
        served(model, job_dir, reporter) as (server, name),
        connect(server.base_url, server.api_key, longest, spec.max_concurrency) as client,
    ):
        yield _ServedEngine(client, name, model, server)


def longest_answer(spec: EvaluationSpec) -> int:
    """The most tokens of an answer, over all benchmarks."""
    return max(each.sampling.max_tokens for each in spec.benchmarks)


class _ServedEngine(EndpointEngine):
    def __init__(
        self, client: InferenceClient, name: str, model: LocalModel, server: VllmServer
    ) -> None:
        super().__init__(client, name, model.stop_token_ids)
        self._server = server

    async def watch(self) -> None:
        """Raise `VllmFailed` once the server has ended; else never return."""
        await self._server.watch()
