"""What others recorded of a rollout: the session of an agent that played it, its environment."""

from enum import StrEnum

from pydantic import Field

from services.contracts.base import JsonObject, Resource


class SequenceRole(StrEnum):
    """What a sequence of turns was to its session."""

    AGENT = "agent"  # the agent's own turns
    AUXILIARY = "auxiliary"  # without tools, beside turns with tools: titles, summaries
    DISCARDED = "discarded"  # an answer that the agent asked for again


class AgentSequence(Resource):
    """Turns of which each continues the tokens of the one before.

    The lists of response tokens have one length and mean what they mean in a trajectory. A turn
    that several sequences share has mask 1 in the first of them only, one of the agent's if there
    is one.
    """

    role: SequenceRole = Field(
        description="Part of the sequence in the session: the agent's own, auxiliary or discarded."
    )
    turns: int = Field(description="Number of turns of the sequence.")
    prompt_token_ids: list[int] = Field(description="Token ids before the first turn.")
    response_token_ids: list[int] = Field(
        description="Token ids after the prompt: those of the turns and of what was inserted "
        "between them."
    )
    response_mask: list[int] = Field(
        description="Mask of the response tokens: 1 where sampled, 0 where inserted or counted "
        "in another sequence."
    )
    log_probs: list[float] = Field(
        description="Sampler log-probability of each response token, in nats; 0.0 where nothing "
        "was sampled."
    )
    policy_versions: list[int] = Field(
        description="Number of updates behind the weights that sampled each response token; -1 "
        "where nothing was sampled."
    )
    messages: list[JsonObject] = Field(
        default_factory=list,
        description="Conversation of the last request, and the answer to it; empty in records "
        "without it.",
    )
    tools: list[JsonObject] = Field(
        default_factory=list, description="Schemas of the tools in the last request."
    )
    cut_off: bool = Field(
        default=False, description="Whether a turn of the sequence ran into a limit of tokens."
    )


class AgentRecord(Resource):
    """What a session of an agent recorded beside the trajectory's own sequence."""

    model_calls: int = Field(description="Number of requests that the model answered.")
    reward: float | None = Field(
        default=None, description="Reward that the agent gave; null if it gave none."
    )
    other_sequences: list[AgentSequence] = Field(
        default_factory=list,
        description="Sequences of the session that are not the trajectory's own, by the request of "
        "their last turn.",
    )
    messages: list[JsonObject] = Field(
        default_factory=list,
        description="Conversation of the trajectory's own sequence, as the agent had it at its "
        "end; empty in records without it.",
    )
    prompt: list[JsonObject] = Field(
        default_factory=list, description="Messages that the session began with."
    )
    notes: list[str] = Field(
        default_factory=list,
        description="Fields of requests that had no effect, such as a temperature of its own.",
    )


class EnvironmentRecord(Resource):
    """The steps of a rollout in an environment, in order."""

    source: str = Field(description="Address of the environment.")
    rewards: list[float | None] = Field(
        default_factory=list,
        description="Reward of each step that the environment took; null where it gave none.",
    )
    done: bool = Field(default=False, description="Whether the environment ended the rollout.")
