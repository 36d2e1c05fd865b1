"""Scores trajectories: each component, and their weighted sum."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.sources import applies, source_of
from services.contracts.rollouts.trajectories import Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.rewards.factory import RewardFactory
from services.rewards.interface import Component, RewardFailed, Sample, Score

logger = logging.getLogger(__name__)


class Scorer(Protocol):
    """Scores trajectories; safe to use from many tasks concurrently."""

    async def score(self, trajectory: Trajectory) -> Trajectory:
        """A copy with ``reward``, ``reward_components`` and ``reward_error``.

        A failing component leaves no reward but its reason; the scores of the others are kept.
        If the infrastructure failed it, the sample is ``left_out``. A failed rollout is not scored
        and has no reward either. Raises only ``CancelledError``.
        """
        ...


@asynccontextmanager
async def open_scorer(
    rewards: Sequence[WeightedReward], environment: OperatorEnvironment
) -> AsyncIterator[Scorer]:
    """A scorer whose connections and processes live as long as the block.

    Contacts and starts nothing before the first trajectory. Raises `InvalidRequest` for a reward
    that can never be computed, `PermissionDenied` for one that the operator does not allow.
    Without rewards, trajectories are returned unchanged; one that no reward is for has none.
    """
    async with AsyncExitStack() as stack:
        factory = RewardFactory(environment, stack)
        yield _WeightedSum(
            [
                _Weighted(
                    each.name,
                    each.weight,
                    each.sources,
                    await factory.component(each.reward, f"rewards[{position}].reward"),
                )
                for position, each in enumerate(rewards)
            ]
        )


@dataclass(frozen=True)
class _Weighted:
    name: str
    weight: float
    sources: Sequence[str] | None
    component: Component


class _WeightedSum:
    def __init__(self, parts: Sequence[_Weighted]) -> None:
        self._parts = parts

    async def score(self, trajectory: Trajectory) -> Trajectory:
        if not self._parts:
            return trajectory
        if trajectory.finish_reason.is_failure:
            what = trajectory.error or trajectory.finish_reason.value
            return _with_reward(trajectory, {}, None, f"the rollout failed: {what}")
        source = source_of(trajectory.extra)
        parts = [part for part in self._parts if applies(part.sources, source)]
        if not parts:
            return _with_reward(trajectory, {}, None, f"no reward scores the source {source!r}")
        sample = Sample.of(trajectory)
        answers = await asyncio.gather(*(_ask(part, sample) for part in parts))
        scores = {name: answer for name, answer in answers if not isinstance(answer, RewardFailed)}
        failed = {name: answer for name, answer in answers if isinstance(answer, RewardFailed)}
        if failed:
            errors = [f"{name}: {error.message}" for name, error in failed.items()]
            unrewarded = _with_reward(trajectory, scores, None, "; ".join(errors))
            return _left_out(unrewarded, failed)
        reward = _sum([part.weight * scores[part.name] for part in parts])
        error = None if reward is not None else "the weighted sum is not a finite number"
        return _with_reward(trajectory, scores, reward, error)


async def _ask(part: _Weighted, sample: Sample) -> tuple[str, float | RewardFailed]:
    """The component's score, or the reason why there is none."""
    try:
        score: Score = await part.component.score(sample)
    except RewardFailed as error:
        return part.name, error
    except Exception as error:
        logger.exception("reward %s of trajectory %s", part.name, sample.trajectory.id)
        message = f"internal error: {type(error).__name__}"
        return part.name, RewardFailed(message, cause=InfrastructureCause.INTERNAL_ERROR)
    return part.name, score.value


def _sum(shares: Sequence[float]) -> float | None:
    try:
        total = math.fsum(shares)
    except (ArithmeticError, ValueError):  # of numbers at the end of what floats can hold
        return None
    return total if math.isfinite(total) else None


def _with_reward(
    trajectory: Trajectory, scores: dict[str, float], reward: float | None, error: str | None
) -> Trajectory:
    return trajectory.model_copy(
        update={"reward": reward, "reward_components": scores, "reward_error": error}
    )


REWARD = "reward:"
"""Precedes the name of a reward as the source of a failure."""


def _left_out(trajectory: Trajectory, failed: dict[str, RewardFailed]) -> Trajectory:
    """Leave a trajectory out if the infrastructure failed one of its rewards."""
    lost = {
        name: LeftOut(source=f"{REWARD}{name}", cause=error.cause, message=error.message)
        for name, error in failed.items()
        if error.cause is not None
    }
    if not lost:
        return trajectory
    failures = Counter(trajectory.infrastructure_failures)
    failures.update(each.source for each in lost.values())
    first = next(iter(lost.values()))
    return trajectory.model_copy(
        update={"left_out": first, "infrastructure_failures": dict(failures)}
    )
