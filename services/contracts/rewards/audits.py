"""How the rewards of a training are distributed, and audits of whether they were earned."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

MAX_BINS = 100


class StepRewards(Resource):
    """The rewards of the trajectories that a training step learned from."""

    step: int = Field(description="Number of the training step.")
    mean: float = Field(description="Mean reward of the step's trajectories that have one.")
    counts: list[int] = Field(description="Number of rewards in each bin of the histogram.")


class RewardHistogram(Resource):
    """Counts of rewards in bins of equal width; bin i is from ``edges[i]`` to ``edges[i + 1]``."""

    object: Literal["rollout.reward.histogram"] = "rollout.reward.histogram"
    rewarded: int = Field(description="Number of trajectories with a reward.")
    unrewarded: int = Field(description="Number of trajectories without a reward.")
    mean: float | None = Field(description="Mean reward; null without rewards.")
    edges: list[float] = Field(description="Edges of the bins; empty without rewards.")
    counts: list[int] = Field(description="Number of rewards in each bin.")
    steps: list[StepRewards] = Field(
        description="The latest steps of a training, at most 60, oldest first; those without "
        "rewards are omitted."
    )


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

    name: AuditName = Field(description="Name of the sign that is looked for.")
    flagged: bool = Field(description="Whether the sign was found.")
    rule: str = Field(description="Rule by which the sign counts as found.")
    first: float | None = Field(description="Value among the first samples; null: not measured.")
    last: float | None = Field(description="Value among the last samples; null: not measured.")
    p_value: float | None = Field(
        description="Probability of so large a change by chance, one-sided; null: not tested."
    )
    message: str = Field(description="Description of the finding in one line.")


class RewardAudit(Resource):
    """Compares the first with the last samples of a training."""

    object: Literal["reward.audit"] = "reward.audit"
    flagged: bool = Field(description="Whether a sign of a gamed reward was found.")
    first_samples: int = Field(
        description="Number of samples with a reward at the beginning of the training that are "
        "compared: of its first quarter, at most 512."
    )
    last_samples: int = Field(
        description="Number of samples with a reward at the end of the training that are "
        "compared: of its last quarter, at most 512."
    )
    reward_first: float | None = Field(
        description="Mean reward of the first samples, each prompt counted once; null where one "
        "end of the training has no rewards."
    )
    reward_last: float | None = Field(
        description="Mean reward of the last samples, each prompt counted once; null where one "
        "end of the training has no rewards."
    )
    checks: list[AuditCheck] = Field(description="Signs of a gamed reward, each with its finding.")
