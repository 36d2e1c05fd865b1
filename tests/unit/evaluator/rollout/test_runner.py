"""Running the rollouts of a job: bounded, stored individually, not idled by slow rewards."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import JobFailed
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.process.outages import Outage
from services.core.process.reporter import Reporter
from services.evaluator.rollout.runner import PlannedRollout, RolloutRunner
from services.evaluator.rollout.totals import RolloutTotals
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.loop import Rollouts
from services.rollouts.models.tokens import TokenModel
from services.rollouts.outages import WINDOW, OutageWatch, ToolMonitor
from tests.support.rollouts import (
    END_TEXT,
    CharacterChat,
    FunctionToolbox,
    ScriptedEngine,
    question,
)

Score = Callable[[Trajectory], Awaitable[Trajectory]]


class FunctionScorer:
    """Scores with a function."""

    def __init__(self, function: Score) -> None:
        self._function = function

    async def score(self, trajectory: Trajectory) -> Trajectory:
        return await self._function(trajectory)


async def one(trajectory: Trajectory) -> Trajectory:
    return trajectory.model_copy(update={"reward": 1.0})


async def run_rollouts(
    folder: Path,
    samples: int,
    concurrency: int,
    score: Score = one,
    engine: ScriptedEngine | None = None,
    *background: Coroutine[Any, Any, None],
) -> RolloutTotals:
    totals = RolloutTotals()
    engine = engine or ScriptedEngine(lambda _: f"yes{END_TEXT}")
    model = TokenModel(engine, CharacterChat(), MultiTurn(), RolloutSampling(max_tokens=99))
    rollouts = Rollouts(model, FunctionToolbox({}), MultiTurn())
    tools, outages = ToolMonitor(Reporter(folder)), OutageWatch(folder, Reporter(folder))
    with IndexedLog(folder) as log:
        playing = RolloutRunner(rollouts, FunctionScorer(score), log, totals, tools, outages, 0)
        wanted = (
            PlannedRollout(question(index=n), k) for n in range(samples // 2) for k in range(2)
        )
        await playing.run(wanted, concurrency, *background)
    return totals


def test_every_rollout_is_run_stored_and_counted(tmp_path: Path) -> None:
    totals = asyncio.run(run_rollouts(tmp_path, 10, 3))

    kept = list(read_indexed(tmp_path))
    assert {each.id for each in kept} == {f"traj-{n}-{k}" for n in range(5) for k in range(2)}
    assert {each.reward for each in kept} == {1.0}
    assert (totals.trajectories, totals.rewarded) == (10, 10)


async def left_out(trajectory: Trajectory) -> Trajectory:
    lost = LeftOut(source="reward:judge", cause=InfrastructureCause.REFUSED, message="down")
    return trajectory.model_copy(
        update={"left_out": lost, "infrastructure_failures": {lost.source: 1}}
    )


def test_rollouts_that_were_left_out_are_in_no_mean(tmp_path: Path) -> None:
    async def some(trajectory: Trajectory) -> Trajectory:
        return await (one if trajectory.sample_index else left_out)(trajectory)

    totals = asyncio.run(run_rollouts(tmp_path, 10, 3, some))

    found = totals.statistics()
    assert (found.trajectories, found.left_out, found.failed) == (10, 5, 0)
    assert found.left_out_causes == {InfrastructureCause.REFUSED: 5}
    assert found.infrastructure_failures == {"reward:judge": 5}
    assert found.reward is not None
    assert (found.reward.count, found.turns.count) == (5, 5)


def test_a_job_ends_for_an_outage_when_most_rollouts_are_lost(tmp_path: Path) -> None:
    with pytest.raises(Outage, match="refused: down"):
        asyncio.run(run_rollouts(tmp_path, 200, 3, left_out))
    assert WINDOW // 2 <= len(list(read_indexed(tmp_path))) < WINDOW


def test_concurrency_stays_within_the_limit(tmp_path: Path) -> None:
    playing = 0
    most = 0

    class Counting(ScriptedEngine):
        async def generate(self, *args: Any) -> Any:
            nonlocal playing, most
            playing += 1
            most = max(most, playing)
            await asyncio.sleep(0)
            try:
                return await super().generate(*args)
            finally:
                playing -= 1

    asyncio.run(run_rollouts(tmp_path, 20, 3, engine=Counting(lambda _: f"yes{END_TEXT}")))

    assert most == 3


def test_a_slow_reward_does_not_idle_the_engine(tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        engine = ScriptedEngine(lambda _: f"yes{END_TEXT}")
        all_asked = asyncio.Event()
        scored = 0

        async def slow(trajectory: Trajectory) -> Trajectory:
            nonlocal scored
            if len(engine.asked) == 4:
                all_asked.set()
            await asyncio.wait_for(all_asked.wait(), 60)
            scored += 1
            return trajectory

        await run_rollouts(tmp_path, 4, 2, slow, engine, nothing())
        return len(engine.asked), scored

    assert asyncio.run(run()) == (4, 4)


async def nothing() -> None:
    await asyncio.Event().wait()


def test_a_trajectory_that_cannot_be_stored_becomes_a_failure_with_its_reason(
    tmp_path: Path,
) -> None:
    async def broken(trajectory: Trajectory) -> Trajectory:
        deep: list[object] = []
        for _ in range(400):
            deep = [deep]
        return trajectory.model_copy(update={"extra": {"deep": deep}})

    totals = asyncio.run(run_rollouts(tmp_path, 2, 1, broken))

    assert totals.failed == 2
    for each in read_indexed(tmp_path):
        assert each.finish_reason is FinishReason.INTERNAL_ERROR
        assert "cannot be stored" in str(each.error)
        assert each.messages == list(question().messages)


def test_a_failed_background_task_ends_the_run(tmp_path: Path) -> None:
    async def gone() -> None:
        raise JobFailed("the server is gone", code="gone")

    async def never(trajectory: Trajectory) -> Trajectory:
        await asyncio.Event().wait()
        return trajectory

    with pytest.raises(JobFailed, match="the server is gone"):
        asyncio.run(run_rollouts(tmp_path, 4, 2, never, None, gone()))
