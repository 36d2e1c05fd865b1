"""The rewards that environments gave for the steps of a rollout."""

import math

from services.contracts.failures import InfrastructureCause
from services.contracts.rewards.rewards import EnvironmentReward, StepRewards
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.rewards.interface import RewardFailed, Sample, Score


class StepScore:
    """The sum or the last of the rewards; see `EnvironmentReward`."""

    def __init__(self, reward: EnvironmentReward) -> None:
        self._steps = reward.steps

    async def score(self, sample: Sample) -> Score:
        """The score of the steps; `RewardFailed` without an environment that gives rewards."""
        environments = sample.trajectory.environments
        if not environments:
            raise RewardFailed(
                "the rollout had no environment", cause=InfrastructureCause.MISCONFIGURED
            )
        return Score(math.fsum(map(self._of, environments)))

    def _of(self, environment: EnvironmentRecord) -> float:
        given = [reward for reward in environment.rewards if reward is not None]
        if given:
            return given[-1] if self._steps is StepRewards.LAST else math.fsum(given)
        if environment.done:
            # Not 0: the policy would be told that it failed.
            raise RewardFailed(
                f"{environment.source} ended its episode without a reward",
                cause=InfrastructureCause.MISCONFIGURED,
            )
        return 0.0
