"""The child of a serving, with an engine that is a stand-in for vLLM."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services.contracts.engine import VllmOptions
from services.contracts.serving import ServingResult
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import REPORTS, Reporter, tell_that_others_wait
from services.evaluator.child_process import ChildContext
from services.evaluator.serve import child
from services.evaluator.serve.spec import ServeSpec
from services.evaluator.serving import LocalModel
from services.inference.relay_protocol import RelayEndpoint, keep_warm, read_endpoint
from services.inference.vllm.server import VllmFailed
from tests.support.engines.stand_in import KEY, EngineStandIn
from tests.support.waiting import wait_for

EPOCH = 4
BODY = {"model": "base", "messages": [{"role": "user", "content": "hi"}]}


class Engine:
    """As much of a VllmServer as the child uses."""

    def __init__(self, stand_in: EngineStandIn) -> None:
        self.base_url = f"{stand_in.url}/v1"
        self.api_key = KEY
        self.died = asyncio.Event()

    async def watch(self) -> None:
        await self.died.wait()
        failure = VllmFailed("vLLM was killed", [])
        failure.retryable = True
        raise failure


class Run:
    """A running child, and the engine that it thinks it has started."""

    def __init__(self, job_dir: Path, patch: pytest.MonkeyPatch, idle_seconds: float) -> None:
        self.engine: Engine | None = None
        self.spec = ServeSpec(
            model=LocalModel(path=job_dir, runtime_python=job_dir, options=VllmOptions()),
            name="base",
            epoch=EPOCH,
            host="127.0.0.1",
            idle_seconds=idle_seconds,
            adapter_rank=0,
            adapters=1,
            answered=10,
        )
        self.job_dir = job_dir
        self.context = ChildContext(
            job_dir, Reporter(job_dir), OperatorEnvironment.take_from({}), None
        )

        @asynccontextmanager
        async def served(*_arguments: Any) -> AsyncIterator[tuple[Engine, str]]:
            stand_in = EngineStandIn()
            await stand_in.start()
            self.engine = Engine(stand_in)
            try:
                yield self.engine, "base"
            finally:
                await stand_in.stop()

        patch.setattr(child, "served", served)
        patch.setattr(child, "LOOK_SECONDS", 0.01)
        patch.setattr(child, "REPORT_SECONDS", 0.0)
        patch.setattr(child, "YIELD_SECONDS", 0.0)

    async def start(self) -> tuple[asyncio.Task[ServingResult], RelayEndpoint]:
        """Start the child; returns once gateways can find it."""
        task = asyncio.create_task(child.serve(self.spec, self.context))
        async with asyncio.timeout(60):
            while (endpoint := read_endpoint(self.job_dir, EPOCH)) is None:
                assert not task.done()
                await asyncio.sleep(0.01)
        return task, endpoint

    def has_progress(self) -> bool:
        return any(report["type"] == "progress" for report in self.reports())

    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.job_dir / REPORTS).read_text().splitlines()]


async def ask(endpoint: RelayEndpoint) -> int:
    headers = {"Authorization": f"Bearer {endpoint.secret}"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{endpoint.url}/v1/chat/completions", json=BODY, headers=headers) as answer,
    ):
        return answer.status


def test_a_serving_answers_and_ends_for_jobs_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> ServingResult:
        case = Run(tmp_path, monkeypatch, idle_seconds=3600.0)
        task, endpoint = await case.start()
        assert await ask(endpoint) == 200
        tell_that_others_wait(tmp_path, True)
        return await asyncio.wait_for(task, 60)

    result = asyncio.run(run())

    assert (result.requests, result.outgrown) == (11, False)
    assert "other jobs wait" in result.reason
    assert read_endpoint(tmp_path, EPOCH) is None


def test_requests_count_as_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[dict[str, Any]]:
        case = Run(tmp_path, monkeypatch, idle_seconds=3600.0)
        keep_warm(tmp_path, True)
        task, endpoint = await case.start()
        await ask(endpoint)
        await asyncio.to_thread(wait_for, case.has_progress, "progress is reported", 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return case.reports()

    reports = asyncio.run(run())

    assert [report["step"] for report in reports if report["type"] == "progress"] == [11]
    assert [report["phase"] for report in reports if report["type"] == "phase"] == ["serving base"]


def test_the_death_of_the_engine_ends_the_attempt_so_that_another_may_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        case = Run(tmp_path, monkeypatch, idle_seconds=3600.0)
        task, _ = await case.start()
        assert case.engine is not None
        case.engine.died.set()
        with pytest.raises(VllmFailed) as caught:
            await asyncio.wait_for(task, 60)
        assert caught.value.retryable

    asyncio.run(run())
    assert read_endpoint(tmp_path, EPOCH) is None
