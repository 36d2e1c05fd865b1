"""A rollout job's own server: replaced in place when it dies, a bounded number of times."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.contracts.errors import JobFailed
from services.core.process.reporter import REPORTS, Reporter
from services.evaluator.rollout.local_engine import (
    MAX_REPLACEMENTS,
    LocalEngine,
    RunningServer,
    open_local_engine,
)
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.inference.vllm.server import VllmFailed
from tests.support.virtual_time import run_in_virtual_time

TURN = TurnSampling(max_tokens=1)


class Server:
    """Answers with its number while it lives; turns in flight when it dies get no answer."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._died = asyncio.Event()
        self._answers = asyncio.Event()

    def answer(self) -> None:
        self._answers.set()

    def die(self) -> None:
        self._died.set()

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        either = [asyncio.create_task(each.wait()) for each in (self._died, self._answers)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._died.is_set():
            cause = ServiceFailed("connection refused", FailureKind.UNSENT)
            cause.transient = True
            raise EngineFailed("connection refused") from cause
        return SampledTokens((self._number,), (0.0,), (0,), "stop")

    async def watch(self) -> None:
        await self._died.wait()
        raise VllmFailed("vLLM was killed by signal 9", [])


class Servers:
    """Starts servers, at most ``startable`` of them."""

    def __init__(self, startable: int = 100) -> None:
        self.started: list[Server] = []
        self._startable = startable

    @asynccontextmanager
    async def start(self) -> AsyncIterator[RunningServer]:
        if len(self.started) == self._startable:
            raise JobFailed("no memory", code="engine_start_failed")
        server = Server(len(self.started))
        self.started.append(server)
        yield RunningServer(server, server.watch, 64)


@asynccontextmanager
async def watched(
    servers: Servers, folder: Path
) -> AsyncIterator[tuple[LocalEngine, "asyncio.Task[None]"]]:
    async with open_local_engine(servers.start, Reporter(folder)) as engine:
        watch = asyncio.create_task(engine.watch())
        yield engine, watch
        watch.cancel()


def test_turns_in_flight_are_sampled_again_by_the_replacement(tmp_path: Path) -> None:
    async def run() -> list[int]:
        servers = Servers()
        async with watched(servers, tmp_path) as (engine, _):
            turns = [asyncio.create_task(engine.generate([1], TURN)) for _ in range(3)]
            await asyncio.sleep(1)
            servers.started[0].die()
            await asyncio.sleep(1)
            servers.started[1].answer()
            return [(await turn).token_ids[0] for turn in turns]

    assert run_in_virtual_time(run()) == [1, 1, 1]
    assert (
        "vLLM was killed by signal 9; starting replacement 1 of 3"
        in (tmp_path / REPORTS).read_text()
    )


def test_a_server_that_dies_too_often_ends_the_attempt_but_not_the_job(tmp_path: Path) -> None:
    async def run() -> VllmFailed:
        servers = Servers()
        async with watched(servers, tmp_path) as (_, watch):
            for number in range(MAX_REPLACEMENTS + 1):
                assert not watch.done()
                await asyncio.sleep(1)
                servers.started[number].die()
            with pytest.raises(VllmFailed, match=r"died 4 times.* killed by signal 9") as failed:
                await watch
            return failed.value

    assert run_in_virtual_time(run()).retryable


def test_a_replacement_that_does_not_start_costs_an_attempt_and_fails_its_turns(
    tmp_path: Path,
) -> None:
    async def run() -> JobFailed:
        servers = Servers(startable=1)
        async with watched(servers, tmp_path) as (engine, watch):
            turn = asyncio.create_task(engine.generate([1], TURN))
            await asyncio.sleep(1)
            servers.started[0].die()
            with pytest.raises(JobFailed, match="no memory") as failed:
                await watch
            with pytest.raises(EngineFailed):
                await turn
            return failed.value

    assert run_in_virtual_time(run()).retryable


def test_a_request_that_a_living_server_rejects_fails_at_once(tmp_path: Path) -> None:
    class Rejecting(Server):
        async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
            raise EngineFailed("too long") from ServiceFailed("400", FailureKind.STATUS, status=400)

    @asynccontextmanager
    async def start() -> AsyncIterator[RunningServer]:
        server = Rejecting(0)
        yield RunningServer(server, server.watch, 64)

    async def run() -> float:
        async with open_local_engine(start, Reporter(tmp_path)) as engine:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            with pytest.raises(EngineFailed, match="too long"):
                await engine.generate([1], TURN)
            return loop.time() - begun

    assert run_in_virtual_time(run()) == 0.0
