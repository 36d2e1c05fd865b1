"""A registered model, served by vLLM for the length of a job."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from services.contracts.errors import JobFailed
from services.core.artifacts import ModelSource
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.spec import LocalModel
from services.inference.vllm.launch import NO_ROUTES, Routes
from services.inference.vllm.server import StartupProgress, VllmFailed, VllmServer


class Served(NamedTuple):
    """A running server, and the name under which it serves what is asked."""

    server: VllmServer
    name: str


@asynccontextmanager
async def served(
    model: LocalModel, job_dir: Path, reporter: Reporter, routes: Routes = NO_ROUTES
) -> AsyncIterator[Served]:
    """A server of the model, ready inside the block; its start is reported.

    Entering raises ``JobFailed`` with the code ``engine_start_failed`` when the model cannot be
    served.
    """
    reporter.phase("loading_model")
    adapter = model.adapter
    base_name = f"base-of-{adapter.name}" if adapter else "model"

    def tell(progress: StartupProgress) -> None:
        elapsed = round(progress.elapsed_seconds, 1)
        reporter.message(f"vLLM: {progress.phase} ({elapsed} s)", elapsed_seconds=elapsed)

    server = VllmServer(
        model.runtime_python,
        ModelSource(path=model.path, hub_id=model.hub_id, revision=model.revision),
        base_name,
        [(adapter.name, adapter.path)] if adapter else [],
        job_dir,
        model.options,
        routes=routes,
        on_progress=tell,
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except VllmFailed as error:
            reporter.message("The model could not be served", "error", log_tail=error.last_lines)
            raise JobFailed(error.message, code="engine_start_failed") from error
        yield Served(server, adapter.name if adapter else base_name)
