"""How the rewards of a training are distributed, and audits of whether they were earned."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

MAX_BINS = 100


class StepRewards(Resource):
    """The rewards of the trajectories that a training step learned from."""

    step: int
    mean: float
    counts: list[int] = Field(description="Number of rewards in each bin of the histogram.")


class RewardHistogram(Resource):
    """Counts of rewards in bins of equal width; bin i is from ``edges[i]`` to ``edges[i + 1]``."""

    object: Literal["rollout.reward.histogram"] = "rollout.reward.histogram"
    rewarded: int
    unrewarded: int
    mean: float | None = Field(description="Mean reward; null without rewards.")
    edges: list[float] = Field(description="Edges of the bins; empty without rewards.")
    counts: list[int]
    steps: list[StepRewards] = Field(description="The latest steps of a training, oldest first.")


class AuditName(StrEnum):
    """A sign of a reward that is gained without doing better."""

    ONE_COMPONENT = "one_component"
    LENGTH_DRIFT = "length_drift"
    REPEATED_PHRASES = "repeated_phrases"
    HELD_OUT_GAP = "held_out_gap"
    COPIED_PROMPT = "copied_prompt"
    GROUPS_COLLAPSED = "groups_collapsed"


class AuditCheck(Resource):
    """One sign: its value among the first and among the last samples, and whether it is found."""

    name: AuditName
    flagged: bool
    rule: str = Field(description="Rule by which the sign counts as found.")
    first: float | None = Field(description="Value among the first samples; null: not measured.")
    last: float | None = Field(description="Value among the last samples; null: not measured.")
    p_value: float | None = Field(
        description="Probability of so large a change by chance, one-sided; null: not tested."
    )
    message: str


class RewardAudit(Resource):
    """Compares the first with the last samples of a training."""

    object: Literal["reward.audit"] = "reward.audit"
    flagged: bool = Field(description="Whether a sign of a gamed reward was found.")
    first_samples: int
    last_samples: int
    reward_first: float | None
    reward_last: float | None
    checks: list[AuditCheck]
