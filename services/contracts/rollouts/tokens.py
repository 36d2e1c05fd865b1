"""The tokens of a trajectory one by one, with their text, for display."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.rollouts.agent_sessions import SequenceRole

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
    id: int = Field(description="Id of the token in the tokenizer's vocabulary.")
    text: str | None = Field(
        description="Text of the token; empty for all but the last token of a character, null "
        "where text_error says why."
    )
    origin: TokenOrigin = Field(description="Origin of the token: prompt, sampled or inserted.")
    log_prob: float | None = Field(
        default=None,
        description="Sampler log-probability, in nats; null for tokens that no policy sampled.",
    )
    policy_version: int | None = Field(
        default=None,
        description="Number of updates behind the weights that sampled the token; null for tokens "
        "that no policy sampled.",
    )
    learner_log_prob: float | None = Field(
        default=None,
        description="Learner log-probability before the update, in nats; null without an update, "
        "and where it was not computed: with the anchor sampler, beyond the first of several "
        "mini-batches.",
    )
    entropy: float | None = Field(
        default=None, description="Entropy of the learner, in nats; null without an update."
    )
    advantage: float | None = Field(
        default=None, description="Advantage of the token in the update; null without one."
    )


class TrajectoryTokens(Resource):
    """Consecutive tokens of a trajectory; the next page begins at ``next_start``."""

    object: Literal["rollout.trajectory.tokens"] = "rollout.trajectory.tokens"
    trajectory_id: str = Field(description="Id of the trajectory.")
    step: int | None = Field(
        default=None, description="Training step that learned from the trajectory; null: none."
    )
    total: int = Field(description="Number of tokens of prompt and response.")
    text_error: str | None = Field(default=None, description="Reason why the tokens have no text.")
    data: list[TrajectoryToken] = Field(description="Tokens of the page, in order.")
    next_start: int | None = Field(
        description="Position at which the next page begins; null at the end."
    )


MAX_TURNS_PER_PAGE = 1000
SHOWN_CHARACTERS = 300
"""Characters of a turn, and of what was inserted before it, in the list of a session's turns."""


class SessionTurn(Resource):
    """A turn of the model in an agent's session."""

    number: int = Field(description="Number of the turn in its session, from 0.")
    parent: int | None = Field(
        description="Number of the turn whose tokens this one continues; null where it starts over."
    )
    sequence: int = Field(
        description="Number of the turn's sequence of tokens, the first that has it; 0 is the "
        "trajectory's own."
    )
    role: SequenceRole = Field(
        description="Part of the sequence in the session: the agent's own, auxiliary or discarded."
    )
    token_start: int = Field(
        description="Position of the turn's first sampled token in the sequence."
    )
    sampled_tokens: int = Field(description="Number of tokens that the model sampled.")
    inserted_tokens: int = Field(
        description="Number of tokens between the parent and this turn; the whole prompt where "
        "it starts over."
    )
    text: str | None = Field(description="Beginning of what the model wrote; null without a text.")
    inserted: str | None = Field(
        description="End of what was inserted before the turn; null without a text."
    )


class SessionTurns(Resource):
    """The turns of an agent's session as a tree; the next page begins at turn ``next_start``."""

    object: Literal["rollout.trajectory.turns"] = "rollout.trajectory.turns"
    trajectory_id: str = Field(description="Id of the trajectory.")
    total: int = Field(description="Number of turns of the session.")
    text_error: str | None = Field(default=None, description="Reason why the turns have no text.")
    data: list[SessionTurn] = Field(description="Turns of the session, in order.")
    next_start: int | None = Field(
        description="Number of the turn at which the next page begins; null at the end."
    )
