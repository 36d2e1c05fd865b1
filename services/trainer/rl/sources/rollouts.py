"""Samples of a model, the policy or a teacher: rollouts with the job's tools."""

from services.contracts.trajectories import Trajectory
from services.rewards import Scorer
from services.rollouts.loop import Rollouts
from services.trainer.rl.draws import Draw
from services.trainer.rl.sources.source import draw_seed, sample_id


class RolloutSource:
    """Plays rollouts and, where there is a scorer, rewards them."""

    def __init__(self, rollouts: Rollouts, scorer: Scorer | None, seed: int) -> None:
        self._rollouts = rollouts
        self._scorer = scorer
        self._seed = seed

    async def sample(self, draw: Draw, index: int) -> Trajectory:
        """One rollout, rewarded."""
        trajectory = await self._rollouts.play(
            draw.prompt,
            sample_index=index,
            seed=draw_seed(self._seed, draw),
            trajectory_id=sample_id(draw, index),
        )
        if self._scorer is None:
            return trajectory
        return await self._scorer.score(trajectory)
