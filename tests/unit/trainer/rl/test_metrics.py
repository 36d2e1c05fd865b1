"""The time breakdown of a step, and the rewards of its samples."""

import asyncio

import pytest

from services.contracts.rewards.rewards import (
    EnvironmentReward,
    SearchEmReward,
    WeightedReward,
)
from services.contracts.rollouts.trajectories import Trajectory
from services.inference.token_engine.base import TurnSampling
from services.rollouts.activity import Activity, Phase
from services.trainer.rl.metrics import IdleShares, StepClock, rollout_metrics, sample_metrics
from services.trainer.rl.scheduler import RolloutStats
from services.trainer.rl.spec import PassThreshold
from tests.support.rewards import trajectory
from tests.support.rl.parts import CountingLearner, SteadyEngine
from tests.support.trajectories import trajectory as rollout
from tests.support.virtual_time import run_in_virtual_time


async def roll_out(activity: Activity) -> None:
    """Generates, then nothing for two seconds, then calls a tool."""
    with activity.during(Phase.GENERATE):
        await asyncio.sleep(6.0)
    await asyncio.sleep(2.0)
    with activity.during(Phase.TOOLS):
        await asyncio.sleep(3.0)


def test_waiting_is_the_idle_time_of_a_step() -> None:
    async def step() -> dict[str, float]:
        activity = Activity()
        clock = StepClock()
        await clock.wait_for_rollouts(activity, roll_out(activity))
        await clock.time("update", asyncio.sleep(4.0))
        await asyncio.sleep(0.5)
        await clock.time("update", asyncio.sleep(1.0))
        return clock.metrics()

    assert run_in_virtual_time(step()) == pytest.approx(
        {
            **{"generate_seconds": 6.0, "tools_seconds": 3.0, "reward_seconds": 0.0},
            **{"update_seconds": 5.0, "waiting_seconds": 2.5},
            **{"rollout_seconds": 11.0, "step_seconds": 16.5},
        }
    )


def test_rollouts_during_an_update_add_no_time_to_the_step() -> None:
    async def step() -> dict[str, float]:
        activity = Activity()
        ahead = asyncio.create_task(roll_out(activity))
        clock = StepClock()
        await clock.time("update", asyncio.sleep(5.0))
        await clock.wait_for_rollouts(activity, ahead)
        return clock.metrics()

    metrics = run_in_virtual_time(step())
    assert metrics["generate_seconds"] == pytest.approx(1.0)
    assert metrics["waiting_seconds"] == pytest.approx(2.0)
    assert metrics["rollout_seconds"] == pytest.approx(6.0)


def test_idle_shares_are_of_the_engine_and_of_the_learner() -> None:
    async def step() -> dict[str, float]:
        engine = SteadyEngine(lambda _: "four")
        learner = CountingLearner()
        idle = IdleShares(engine, learner)
        turn = TurnSampling(max_tokens=4)
        ahead = asyncio.gather(engine.generate([], turn), engine.generate([], turn))
        await asyncio.sleep(7.0)
        learner.busy_seconds += 5.0
        await ahead
        await asyncio.sleep(1.0)
        return idle.take()

    shares = run_in_virtual_time(step())
    assert shares == pytest.approx({"engine_idle_share": 0.5, "learner_idle_share": 3 / 8})


def test_sampled_tokens_are_those_of_the_policy() -> None:
    def sample(tokens: int, version: int) -> Trajectory:
        return rollout(tokens=tokens).model_copy(update={"policy_versions": [version] * tokens})

    own = [sample(2, 0), sample(6, 1)]
    for others in ([], [sample(100, -1)] * 3):  # answers of the data, or of a teacher
        stats = RolloutStats(samples=[*own, *others], groups=1, seconds=2.0)
        metrics = rollout_metrics(stats, None)
        assert metrics["generation_tokens_per_second"] == 4.0
        assert metrics["rollout_sampled_length"] == 4.0


def test_rewards_are_told_by_the_source_of_the_row() -> None:
    rewards = [
        WeightedReward(name="sum", reward=SearchEmReward(), sources=["math"]),
        WeightedReward(name="won", weight=2, reward=EnvironmentReward(), sources=["game"]),
    ]

    def sample(source: str | None, reward: float) -> Trajectory:
        extra = {} if source is None else {"source": source}
        return trajectory("a", extra=extra).model_copy(update={"reward": reward})

    samples = [
        sample("math", 1.0),
        sample("math", 0.0),
        sample("game", 1.0),
        sample("game", 2.0),
        sample(None, 5.0),
    ]
    metrics = sample_metrics(samples, PassThreshold(rewards))

    assert metrics["source_reward/math"] == 0.5
    assert metrics["source_reward/game"] == 1.5
    # A game is won with a reward of 2, a sum is right with one of 1.
    assert metrics["source_pass_rate/math"] == metrics["source_pass_rate/game"] == 0.5
    assert metrics["source_samples/math"] == 2.0
    assert metrics["reward"] == 1.8
