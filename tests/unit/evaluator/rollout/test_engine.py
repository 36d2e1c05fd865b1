"""When engine failures fail a job."""

import asyncio
from collections.abc import Sequence

import pytest

from services.contracts.errors import JobFailed
from services.evaluator.failures import STREAK
from services.evaluator.rollout.engine import UNABLE, WatchedEngine
from services.inference.clients.retries import FailureKind, ServiceFailed
from services.inference.token_engine.base import EngineFailed, SampledTokens, TurnSampling
from services.inference.vllm.server import VllmFailed
from tests.support.virtual_time import run_in_virtual_time

SAMPLED = SampledTokens((1,), (0.0,), (0,), "stop")


class Engine:
    """Fails with each status in turn; None is an answer."""

    def __init__(self, *statuses: int | None, code: str | None = None) -> None:
        self._statuses = iter(statuses)
        self._code = code

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        status = next(self._statuses)
        if status is None:
            return SAMPLED
        cause = ServiceFailed(f"answered {status}", FailureKind.STATUS, status=status)
        raise EngineFailed(f"answered {status}", code=self._code) from cause


async def never() -> None:
    await asyncio.Event().wait()


async def ask(engine: WatchedEngine, times: int) -> None:
    for _ in range(times):
        try:
            await engine.generate([1], TurnSampling(max_tokens=1))
        except EngineFailed:
            continue


def outcome(engine: Engine, times: int) -> JobFailed | None:
    """The error of the watch after ``turns`` turns; None if it continues."""

    async def watch() -> JobFailed | None:
        watched = WatchedEngine(engine, never, context_length=None)
        await ask(watched, times)
        try:
            await asyncio.wait_for(watched.watch(), 1.0)
        except JobFailed as error:
            return error
        except TimeoutError:
            return None
        raise AssertionError("watching came to an end")

    return run_in_virtual_time(watch())


def test_an_engine_that_rejects_every_turn_fails_the_job() -> None:
    ended = outcome(Engine(*[401] * STREAK), STREAK)

    assert ended is not None
    assert ended.code == "endpoint_refused"
    assert "401" in ended.message


def test_occasional_engine_failures_are_tolerated() -> None:
    pattern = [500] * (STREAK - 1) + [None]

    assert outcome(Engine(*pattern * 3), 3 * STREAK) is None


def test_rejected_turns_after_a_sampled_one_do_not_fail_the_job() -> None:
    assert outcome(Engine(None, *[400] * 3 * STREAK), 3 * STREAK + 1) is None


def test_a_server_without_token_ids_fails_the_job_immediately() -> None:
    ended = outcome(Engine(200, code=UNABLE), 1)

    assert ended is not None
    assert ended.code == UNABLE


def test_the_end_of_the_server_ends_the_watch() -> None:
    async def ends() -> None:
        raise VllmFailed("vLLM ended with code 1", [])

    async def watch() -> None:
        await WatchedEngine(Engine(), ends, context_length=None).watch()

    with pytest.raises(VllmFailed):
        asyncio.run(watch())
