"""How the rewards of a job's trajectories are distributed."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

MAX_BINS = 100


class StepRewards(Resource):
    """The rewards of the trajectories that a training step learned from."""

    step: int
    mean: float
    counts: list[int] = Field(description="Counts in the same bins.")


class RewardHistogram(Resource):
    """Counts of rewards in bins of equal width; bin i is from ``edges[i]`` to ``edges[i + 1]``."""

    object: Literal["rollout.reward.histogram"] = "rollout.reward.histogram"
    rewarded: int
    unrewarded: int
    mean: float | None = Field(description="Mean reward; null without rewards.")
    edges: list[float] = Field(description="Edges of the bins; empty without rewards.")
    counts: list[int]
    steps: list[StepRewards] = Field(description="The latest steps of a training, oldest first.")
