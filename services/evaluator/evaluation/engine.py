"""Who answers an evaluation: a vLLM server of its own, or an endpoint elsewhere."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from services.common.clients.inference import InferenceClient
from services.common.contracts.evaluations import Sampling
from services.common.engines.sources import ModelSource
from services.common.engines.vllm_server import StartupProgress, VllmFailed, VllmServer
from services.common.errors import JobFailed
from services.common.process.reporter import Reporter
from services.evaluator.evaluation.endpoint import Endpoint, connect
from services.evaluator.evaluation.spec import EvaluationSpec, LocalModel


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
    reporter.phase("loading_model")
    server, name = _server(model, job_dir, reporter)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except VllmFailed as error:
            reporter.message("The model could not be served", "error", log_tail=error.last_lines)
            raise JobFailed(error.message, code="engine_start_failed") from error
        client = await stack.enter_async_context(
            connect(server.base_url, server.api_key, spec.sampling, spec.max_concurrency)
        )
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


def _server(model: LocalModel, job_dir: Path, reporter: Reporter) -> tuple[VllmServer, str]:
    """The server, not started yet, and the name under which it serves what is evaluated."""
    adapter = model.adapter
    base_name = f"base-of-{adapter.name}" if adapter else "model"

    def tell(progress: StartupProgress) -> None:
        elapsed = round(progress.elapsed_seconds, 1)
        reporter.message(f"vLLM: {progress.phase} ({elapsed} s)", elapsed_seconds=elapsed)

    server = VllmServer(
        model.runtime_python,
        ModelSource(model.path, model.hub_id, model.revision),
        base_name,
        [(adapter.name, adapter.path)] if adapter else [],
        job_dir,
        model.options,
        on_progress=tell,
    )
    return server, adapter.name if adapter else base_name
