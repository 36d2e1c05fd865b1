"""A worker of servings whose engine is a stand-in: the real job machine, child and relay.

Without arguments the worker; with a job's folder, the child of one serving.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from services.contracts.engine import VllmOptions
from services.contracts.serving import CreateServing
from services.core.db.engine import Database
from services.evaluator.child_process import run_child
from services.evaluator.serve import child
from services.evaluator.serve.handler import ServeHandler
from services.evaluator.serve.spec import SPEC, ServeSpec
from services.evaluator.serving import LocalModel
from services.inference.relay_protocol import keep_warm, withdraw_endpoint
from services.jobs.claims import Claim
from services.jobs.queues import SERVE
from services.jobs.worker.handler import Launch
from services.jobs.worker.main import run_worker
from services.jobs.worker.settings import WorkerSettings
from tests.support.engines.stand_in import KEY, EngineStandIn


class Engine:
    """As much of a server as the child uses; it never dies."""

    api_key = KEY

    def __init__(self, url: str) -> None:
        self.base_url = f"{url}/v1"

    async def watch(self) -> None:
        """Wait for its end."""
        await asyncio.Event().wait()


class StandInServeHandler(ServeHandler):
    """Starts this module as the child, whatever the model is."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self._own = settings

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        request = CreateServing.model_validate(claim.job.request)
        spec = ServeSpec(
            model=LocalModel(path=job_dir, runtime_python=job_dir, options=VllmOptions()),
            name=request.model,
            epoch=claim.job.epoch,
            host=self._own.serving_host,
            idle_seconds=float(request.idle_seconds or self._own.serving_idle_seconds),
            adapter_rank=0,
            adapters=1,
            answered=claim.job.step or 0,
        )
        withdraw_endpoint(job_dir)
        keep_warm(job_dir, request.keep_warm)
        (job_dir / SPEC).write_text(spec.model_dump_json())
        return Launch([sys.executable, "-m", __spec__.name, str(job_dir)], yields=True)


@asynccontextmanager
async def served(*arguments: Any) -> AsyncIterator[tuple[Engine, str]]:
    """Start the stand-in under the name of the last argument."""
    name = str(arguments[-1])
    stand_in = EngineStandIn(name)
    await stand_in.start()
    try:
        yield Engine(stand_in.url), name
    finally:
        await stand_in.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child.served = served  # type: ignore[assignment, attr-defined]  # a stand-in
        run_child(Path(sys.argv[1]), child._run)
    else:
        settings = WorkerSettings()
        run_worker(StandInServeHandler(settings), SERVE, settings)
