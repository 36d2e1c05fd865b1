"""The tokens of a trajectory one by one, with their text, for display."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

MAX_TOKENS_PER_PAGE = 10_000


class TokenOrigin(StrEnum):
    """The origin of a token."""

    PROMPT = "prompt"
    SAMPLED = "sampled"  # by the policy
    INSERTED = "inserted"  # a tool's reply, or the chat template's text around it


class TrajectoryToken(Resource):
    """A token. Fields of sampled tokens are null for others, and results of an update are null
    without one."""

    position: int = Field(
        description="Position of the token, from 0; the prompt's tokens come first."
    )
    id: int
    text: str | None = Field(
        description="Text of the token; empty for all but the last token of a character, null "
        "where text_error says why."
    )
    origin: TokenOrigin
    log_prob: float | None = Field(default=None, description="Sampler log-probability, in nats.")
    policy_version: int | None = None
    learner_log_prob: float | None = Field(
        default=None, description="Learner log-probability before the update, in nats."
    )
    entropy: float | None = Field(default=None, description="Entropy of the learner, in nats.")
    advantage: float | None = None


class TrajectoryTokens(Resource):
    """Consecutive tokens of a trajectory; the next page begins at ``next_start``."""

    object: Literal["rollout.trajectory.tokens"] = "rollout.trajectory.tokens"
    trajectory_id: str
    step: int | None = Field(
        default=None, description="The step of a training that learned from it."
    )
    total: int = Field(description="Tokens of prompt and response.")
    text_error: str | None = Field(default=None, description="Reason why the tokens have no text.")
    data: list[TrajectoryToken]
    next_start: int | None = Field(
        description="Position at which the next page begins; null at the end."
    )
