"""Trajectories to reward, and the rewarding of one."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter

from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.core.operator_environment import OperatorEnvironment
from services.rewards.scorer import open_scorer
from tests.support.virtual_time import run_advancing_clock

_REWARDS = TypeAdapter(list[WeightedReward])


def trajectory(
    *texts: str,
    gold: Sequence[str] = ("4",),
    replies: Sequence[str] = (),
    outcome: CallOutcome = CallOutcome.ANSWERED,
    **fields: Any,
) -> Trajectory:
    """A rollout with the turns ``texts``; the first called a tool, which replied."""
    turns = [Turn(text=text, token_start=0, token_count=0, finish_reason="stop") for text in texts]
    for turn, reply in zip(turns, replies, strict=False):
        call = ToolCallRecord(name="run", arguments={}, outcome=outcome, reply=reply, shown=reply)
        turn.calls = [call]
    known: dict[str, Any] = {
        "id": "traj-1",
        "prompt_index": 0,
        "messages": [{"role": "user", "content": "What is 2+2?"}],
        "prompt_token_ids": [1],
        "finish_reason": FinishReason.ANSWERED,
    }
    return Trajectory(turns=turns, gold=list(gold), **{**known, **fields})


def weighted(*rewards: dict[str, Any]) -> list[WeightedReward]:
    """Rewards named r0, r1, ... of weight 1, or what they say under ``name`` and ``weight``."""
    return _REWARDS.validate_python(
        [
            each if "reward" in each else {"name": f"r{position}", "reward": each}
            for position, each in enumerate(rewards)
        ]
    )


def rewarded(
    sample: Trajectory,
    *rewards: dict[str, Any],
    environment: OperatorEnvironment | None = None,
    moments: Sequence[Callable[[], object]] = (),
) -> Trajectory:
    """The trajectory as a scorer gives it back; an hour passes at each of the ``moments``."""
    return rewarded_all([sample], *rewards, environment=environment, moments=moments)[0]


def rewarded_all(
    samples: Sequence[Trajectory],
    *rewards: dict[str, Any],
    environment: OperatorEnvironment | None = None,
    moments: Sequence[Callable[[], object]] = (),
) -> list[Trajectory]:
    """Trajectories rewarded at once by one scorer; an hour passes at each of the ``moments``."""

    async def judge() -> list[Trajectory]:
        async with open_scorer(weighted(*rewards), environment or OperatorEnvironment()) as scorer:
            return await asyncio.gather(*map(scorer.score, samples))

    return run_advancing_clock(judge(), *moments)


def score(
    sample: Trajectory, reward: dict[str, Any], environment: OperatorEnvironment | None = None
) -> float:
    """The one score of a trajectory, which must be given."""
    answer = rewarded(sample, reward, environment=environment)
    assert answer.reward is not None, answer.reward_error
    return answer.reward


def failure(
    sample: Trajectory,
    reward: dict[str, Any],
    environment: OperatorEnvironment | None = None,
    *moments: Callable[[], object],
) -> str:
    """Why there is no score; an hour passes at each of the ``moments``."""
    answer = rewarded(sample, reward, environment=environment, moments=moments)
    assert answer.reward is None
    assert answer.reward_error is not None
    return answer.reward_error
