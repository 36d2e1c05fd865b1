"""The record of one rollout: its turns, calls, tokens and rewards."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from services.contracts.base import JsonObject, Resource
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.agent_sessions import AgentRecord, EnvironmentRecord
from services.contracts.rollouts.tool_runs import ToolRun
from services.contracts.validation import AtField, given_of

KEPT_REPLY_CHARACTERS = 65_536
"""Characters of a tool's reply that are recorded, along with its full length."""


class CallOutcome(StrEnum):
    """The outcome of a call."""

    ANSWERED = "answered"  # the tool replied; a failed program's output is a reply too
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    FAILED = "failed"  # the tool could not be reached, or broke
    TIMED_OUT = "timed_out"
    DROPPED = "dropped"  # not executed: over a limit, or after the last token

    @property
    def is_error(self) -> bool:
        """Whether the call was to be executed and got no reply."""
        return self not in {CallOutcome.ANSWERED, CallOutcome.DROPPED}

    @property
    def is_outage(self) -> bool:
        """Whether the tool gave no answer; invalid calls are the fault of the model."""
        return self in {CallOutcome.FAILED, CallOutcome.TIMED_OUT}


class ToolCallRecord(Resource):
    """One call. ``shown`` is what the model read; times are seconds since the rollout began."""

    name: str = Field(description="Name of the tool.")
    arguments: JsonObject | None = Field(
        description="Arguments of the call; null where they were no JSON object."
    )
    outcome: CallOutcome = Field(description="Outcome of the call.")
    reply: str | None = Field(
        default=None,
        description="Beginning of the tool's reply, up to 65,536 characters; null: none.",
    )
    reply_characters: int = Field(default=0, description="Number of characters of the whole reply.")
    shown: str | None = Field(
        default=None,
        description="Reply or error, as the conversation has it; null: the model did not read it.",
    )
    error: str | None = Field(
        default=None,
        description="Error of a call that got no reply; null: none, or it was dropped.",
    )
    cause: InfrastructureCause | None = Field(
        default=None, description="Cause of a failure of the infrastructure; null: there was none."
    )
    failures: int = Field(
        default=0,
        description="Number of failures of the infrastructure, repaired by a repeat or not.",
    )
    attempts: int = Field(default=0, description="Number of requests for the call.")
    started: float = Field(
        default=0.0, description="Start of the call, in seconds since the rollout began."
    )
    seconds: float = Field(default=0.0, description="Duration of the call, in seconds.")
    run: ToolRun | None = Field(
        default=None,
        description="Program, search or failed request behind the call; null: not known.",
    )


class MalformedCall(Resource):
    """A call that could not be parsed."""

    text: str = Field(description="Text of the call.")
    reason: str = Field(description="Reason why the call could not be parsed.")


class Turn(Resource):
    """One turn of the model, and the replies to its calls. ``token_start`` is the index of its
    first token in ``response_token_ids``; the turn has ``token_count`` sampled tokens, and
    ``inserted_count`` tokens of replies follow them. Where a chat endpoint gave no token ids,
    ``token_start`` is 0, the endpoint counted the sampled tokens, and those of replies are
    estimated.
    """

    text: str = Field(description="Text of the turn, decoded with special tokens.")
    token_start: int = Field(
        description="Index of the turn's first token among the response tokens."
    )
    token_count: int = Field(description="Number of sampled tokens of the turn.")
    inserted_count: int = Field(
        default=0, description="Number of tokens of tool replies after the turn."
    )
    prompt_tokens: int | None = Field(
        default=None,
        description="Number of tokens before the turn, as a chat endpoint counted them.",
    )
    finish_reason: str = Field(description="Finish reason of the engine: stop, length or abort.")
    calls: list[ToolCallRecord] = Field(default_factory=list, description="Tool calls of the turn.")
    malformed: list[MalformedCall] = Field(
        default_factory=list, description="Calls of the turn that could not be parsed."
    )
    started: float = Field(
        default=0.0, description="Start of the turn, in seconds since the rollout began."
    )
    seconds: float = Field(default=0.0, description="Duration of the turn's sampling, in seconds.")

    @property
    def calls_run(self) -> int:
        """Calls that were run."""
        return sum(call.outcome is not CallOutcome.DROPPED for call in self.calls)


class FinishReason(StrEnum):
    """Why a rollout ended."""

    ANSWERED = "answered"  # the model ended its turn without a call
    LENGTH = "length"  # the token budget of the turn, or of all turns, was spent
    REPLY_TOO_LONG = "reply_too_long"  # a tool's reply did not fit into the budget
    CALLS_SPENT = "calls_spent"  # the model called again after its last call
    TOOL_ERROR = "tool_error"  # a call failed, and on_tool_error is stop
    TOOL_UNAVAILABLE = "tool_unavailable"  # the infrastructure failed a call, after all repeats
    ENVIRONMENT_DONE = "environment_done"  # an environment ended its episode
    PROMPT_REFUSED = "prompt_refused"  # the chat template refused it, or it leaves no room
    TIMED_OUT = "timed_out"  # the time limit of an agent's session passed
    AGENT_FAILED = "agent_failed"  # the agent that played the session failed
    ENGINE_FAILED = "engine_failed"  # the model's server did not answer
    INTERNAL_ERROR = "internal_error"  # a bug in Temper, recorded as data

    @property
    def is_failure(self) -> bool:
        """Whether the record is not a sample of the policy."""
        return self in {
            FinishReason.TOOL_UNAVAILABLE,
            FinishReason.PROMPT_REFUSED,
            FinishReason.AGENT_FAILED,
            FinishReason.ENGINE_FAILED,
            FinishReason.INTERNAL_ERROR,
        }


TRUNCATED = frozenset({FinishReason.LENGTH, FinishReason.REPLY_TOO_LONG, FinishReason.TIMED_OUT})
"""Finish reasons of truncated responses: a limit of tokens or time passed before the model had
finished."""


class Trajectory(Resource):
    """A rollout. The four lists of response tokens have one length; with ``prompt_token_ids``,
    they are empty for a chat endpoint.

    ``response_mask`` is 1 on sampled tokens and 0 on inserted ones. ``log_probs`` are natural
    logarithms of the sampler's probabilities, 0.0 where nothing was sampled;
    ``policy_versions`` name the weights that sampled each token, -1 where nothing was sampled.
    """

    schema_version: Literal[1] = Field(default=1, description="Version of the record's format.")
    id: str = Field(description="Id of the trajectory.")
    object: Literal["rollout.trajectory"] = "rollout.trajectory"
    prompt_index: int = Field(description="Row of the prompts, counted from 0.")
    sample_index: int = Field(
        default=0, description="Number of the sample among those of the prompt, from 0."
    )
    messages: list[JsonObject] = Field(description="Messages of the prompt.")
    tools: list[JsonObject] = Field(
        default_factory=list, description="Schemas of the tools that the model read."
    )
    gold: list[str] = Field(default_factory=list, description="Reference answers of the prompt.")
    extra: JsonObject = Field(
        default_factory=dict, description="Further fields of the prompt's row."
    )
    prompt_token_ids: list[int] = Field(
        description="Token ids of the prompt; empty for a chat endpoint."
    )
    response_token_ids: list[int] = Field(
        default_factory=list,
        description="Token ids after the prompt, sampled and inserted; empty for a chat endpoint.",
    )
    response_mask: list[int] = Field(
        default_factory=list,
        description="Mask of the response tokens: 1 where sampled, 0 where inserted.",
    )
    log_probs: list[float] = Field(
        default_factory=list,
        description="Sampler log-probability of each response token, in nats; 0.0 where nothing "
        "was sampled.",
    )
    policy_versions: list[int] = Field(
        default_factory=list,
        description="Number of updates behind the weights that sampled each response token; -1 "
        "where nothing was sampled.",
    )
    turns: list[Turn] = Field(
        default_factory=list, description="Turns of the model, with their calls."
    )
    finish_reason: FinishReason = Field(description="Reason why the rollout ended.")
    error: str | None = Field(default=None, description="Error that ended the rollout; null: none.")
    status_code: int | None = Field(
        default=None,
        description="HTTP status of an engine that failed; null: none did, or it gave none.",
    )
    reward: float | None = Field(
        default=None,
        description="Weighted sum of the reward's components; null: there is no reward.",
    )
    reward_components: dict[str, float] = Field(
        default_factory=dict, description="Scores of the reward's components, by name."
    )
    reward_error: str | None = Field(default=None, description="Reason why there is no reward.")
    left_out: LeftOut | None = Field(
        default=None,
        description="Loss of the rollout or its reward to failing infrastructure: it then "
        "counts in no advantage, loss, score or mean. Null: none.",
    )
    infrastructure_failures: dict[str, int] = Field(
        default_factory=dict,
        description="Number of failures of the infrastructure by source, those that a repeat "
        "repaired included.",
    )
    plays: int = Field(
        default=1,
        description="Number of times the rollout was played; more than one if a tool was "
        "unavailable.",
    )
    created_at: float = Field(
        default=0.0, description="Time at which the rollout began, in Unix seconds."
    )
    agent: AgentRecord | None = Field(
        default=None, description="Session of the agent that played the rollout, if one did."
    )
    environments: list[EnvironmentRecord] = Field(
        default_factory=list, description="Steps of the rollout in each of its environments."
    )
    seconds: float = Field(default=0.0, description="Duration of the rollout, in seconds.")
    model_seconds: float = Field(
        default=0.0, description="Seconds that the rollout waited for the model."
    )
    tool_seconds: float = Field(
        default=0.0,
        description="Seconds that the rollout waited for tools; of an agent's session, all but "
        "those of the model.",
    )

    @model_validator(mode="after")
    def _lists_fit(self) -> Self:
        lengths = {
            name: len(getattr(self, name))
            for name in ("response_token_ids", "response_mask", "log_probs", "policy_versions")
        }
        if len(set(lengths.values())) > 1:
            first = lengths["response_token_ids"]
            others = [name for name in lengths if lengths[name] != first]
            field = given_of(self, *others, "response_token_ids")
            raise AtField(field, f"lists of tokens have different lengths: {lengths}")
        return self

    @property
    def tool_calls(self) -> int:
        """Calls that were run."""
        return sum(turn.calls_run for turn in self.turns)

    @property
    def failed_calls(self) -> int:
        """Calls that got no reply."""
        return sum(call.outcome.is_error for turn in self.turns for call in turn.calls)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt; 0 if unknown."""
        if self.prompt_token_ids or not self.turns:
            return len(self.prompt_token_ids)
        return self.turns[0].prompt_tokens or 0

    @property
    def response_tokens(self) -> int:
        """Tokens that the model wrote, plus inserted ones."""
        if self.response_token_ids:
            return len(self.response_token_ids)
        return sum(turn.token_count + turn.inserted_count for turn in self.turns)

    @property
    def has_estimates(self) -> bool:
        """Whether token counts are partly estimated: a chat endpoint returns no token ids, and
        counts neither tool results nor, without usage, its own turns."""
        if self.prompt_token_ids or self.response_token_ids:
            return False
        return any(turn.inserted_count or turn.prompt_tokens is None for turn in self.turns)

    @property
    def sampled_tokens(self) -> int:
        """Tokens that the model wrote."""
        if self.response_token_ids:
            return sum(self.response_mask)
        return sum(turn.token_count for turn in self.turns)

    @property
    def policy_mask(self) -> list[bool]:
        """Which response tokens the policy of a training sampled: those of the data's answers and
        of a teacher, which are trained on as well, carry no version."""
        pairs = zip(self.response_mask, self.policy_versions, strict=True)
        return [bool(sampled) and version >= 0 for sampled, version in pairs]
