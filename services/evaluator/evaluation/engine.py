"""Who answers an evaluation: a vLLM server of its own, or an endpoint elsewhere."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from services.contracts.evaluations import Sampling
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.endpoint import Endpoint, connect
from services.evaluator.evaluation.spec import EvaluationSpec, LocalModel
from services.evaluator.serving import served
from services.inference.clients.chat import InferenceClient
from services.inference.vllm.server import VllmServer


def open_engine(
    spec: EvaluationSpec, job_dir: Path, reporter: Reporter, endpoint_key: str | None
) -> AbstractAsyncContextManager[Endpoint]:
    """The model of the evaluation, ready to be asked inside the block.

    ``endpoint_key`` is sent to a remote endpoint only. Entering raises ``JobFailed`` with the code
    ``engine_start_failed`` when a local model cannot be served.
    """
    if isinstance(spec.model, LocalModel):
        return _served(spec.model, spec, job_dir, reporter)
    return _remote(str(spec.model.base_url), spec.model.model, endpoint_key, spec)


@asynccontextmanager
async def _remote(
    base_url: str, model: str, key: str | None, spec: EvaluationSpec
) -> AsyncIterator[Endpoint]:
    async with connect(base_url, key, spec.sampling, spec.max_concurrency) as client:
        yield Endpoint(client, model, spec.sampling)


@asynccontextmanager
async def _served(
    model: LocalModel, spec: EvaluationSpec, job_dir: Path, reporter: Reporter
) -> AsyncIterator[Endpoint]:
    async with (
        served(model, job_dir, reporter) as (server, name),
        connect(server.base_url, server.api_key, spec.sampling, spec.max_concurrency) as client,
    ):
        yield _ServedEndpoint(client, name, spec.sampling, model, server)


class _ServedEndpoint(Endpoint):
    def __init__(
        self,
        client: InferenceClient,
        name: str,
        sampling: Sampling,
        model: LocalModel,
        server: VllmServer,
    ) -> None:
        stop = model.adapter.stop_token_ids if model.adapter else ()
        super().__init__(client, name, sampling, stop)
        self._server = server

    async def watch(self) -> None:
        """Raise `VllmFailed` once the server has ended; else never return."""
        await self._server.watch()
