"""The rewards that environments gave, as the reward of a rollout."""

import asyncio

import pytest

from services.contracts.failures import InfrastructureCause
from services.contracts.rewards.rewards import EnvironmentReward, WeightedReward
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.rewards.scorer import open_scorer


def scored(*environments: EnvironmentRecord, steps: str = "sum") -> Trajectory:
    trajectory = Trajectory(
        id="traj",
        prompt_index=0,
        messages=[],
        prompt_token_ids=[],
        finish_reason=FinishReason.ANSWERED,
        environments=list(environments),
    )
    own = WeightedReward(name="own", weight=0.5, reward=EnvironmentReward(steps=steps))

    async def work() -> Trajectory:
        async with open_scorer([own], OperatorEnvironment()) as scorer:
            return await scorer.score(trajectory)

    return asyncio.run(work())


def record(*rewards: float | None, done: bool = False) -> EnvironmentRecord:
    return EnvironmentRecord(source="http://env", rewards=list(rewards), done=done)


@pytest.mark.parametrize(
    ("records", "steps", "reward"),
    [
        ([record(1.0, None, 0.25)], "sum", 1.25),
        ([record(1.0, 0.25, None)], "last", 0.25),
        ([record(1.0, 2.0), record(4.0)], "sum", 7.0),
        ([record(1.0, 2.0), record(4.0)], "last", 6.0),
        ([record()], "sum", 0.0),  # the policy never acted
        ([record(None)], "last", 0.0),
        ([record(0.0, done=True)], "sum", 0.0),
    ],
)
def test_the_rewards_of_steps_are_the_rollouts(
    records: list[EnvironmentRecord], steps: str, reward: float
) -> None:
    found = scored(*records, steps=steps)

    assert found.reward_components == {"own": reward}
    assert found.reward == reward / 2


@pytest.mark.parametrize("records", [[], [record(None, None, done=True)]])
def test_an_environment_that_gives_no_rewards_is_no_failure_of_the_policy(
    records: list[EnvironmentRecord],
) -> None:
    found = scored(*records)

    assert found.reward is None
    assert found.left_out is not None
    assert found.left_out.cause is InfrastructureCause.MISCONFIGURED
