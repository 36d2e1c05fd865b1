"""Conversations in which a model calls tools: their settings, and the tools.

The names of the settings are those that MindSpeed-RL publishes, so that its files can be used as
they are.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from services.contracts.base import JsonObject, Number, Request
from services.contracts.rollouts.sources import Sources


class CountedCalls(StrEnum):
    """What ``max_tool_calls`` counts."""

    CALLS = "calls"  # every executed call
    TURNS = "turns"  # every turn of the model that called a tool


class TruncateSide(StrEnum):
    """Which part of a long reply of a tool is kept."""

    LEFT = "left"  # its head
    RIGHT = "right"  # its tail
    MIDDLE = "middle"  # both ends


class OnToolError(StrEnum):
    """How a conversation continues when a call fails."""

    CONTINUE = "continue"  # the model reads the error and continues
    STOP = "stop"


class MultiTurn(Request):
    """Limits and format of a conversation with tools; lengths of responses are in tokens."""

    multi_turn_enable: StrictBool = Field(
        default=False,
        description="Whether a rollout may have several turns; false: one turn, and no tool is "
        "called.",
    )
    async_engine: StrictBool = Field(
        default=True,
        description="Asynchronous engine, as verl calls it; must be true with several turns.",
    )
    max_tool_calls: StrictInt | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Maximum calls in one conversation; null: as many as fit.",
    )
    count_tool_calls: CountedCalls = Field(
        default=CountedCalls.CALLS,
        description="Unit of max_tool_calls: single calls, or turns with calls.",
    )
    max_parallel_calls: StrictInt = Field(
        default=1,
        ge=1,
        le=64,
        description="Maximum calls of one turn that are run; further ones are dropped.",
    )
    max_total_response_length: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1_048_576,
        description="Maximum tokens of all turns and tool replies after the prompt; null: "
        "sampling.max_tokens.",
    )
    max_tool_response_length: StrictInt = Field(
        default=256,
        ge=1,
        le=1_048_576,
        description="Maximum characters of one reply of a tool; longer ones are truncated.",
    )
    tool_response_truncate_side: TruncateSide = Field(
        default=TruncateSide.MIDDLE,
        description="Kept part of a reply that is too long: left is its head, right its tail, "
        "middle both ends.",
    )
    tool_parser_format: Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,50}$")] = Field(
        default="hermes", description="Format in which the model writes calls."
    )
    on_tool_error: OnToolError = Field(
        default=OnToolError.CONTINUE,
        description="Continuation after a failed call: the model reads the error and continues, or "
        "the rollout stops.",
    )


ENVIRONMENT = "openenv"
"""The class of tools that are environments, which reward the steps of a rollout."""


class Tool(Request):
    """A tool as published tool files declare one.

    ``class_name`` is its kind: a name of ours (sandbox, retool, search, http, callable, mcp,
    openenv), or a dotted class name of MindSpeed-RL or verl. ``config`` belongs to that kind.
    ``tool_schema`` is shown to the model: {type: function, function: {name, description,
    parameters}}.
    """

    class_name: str = Field(
        min_length=1, max_length=300, description="Kind of the tool, or a published class name."
    )
    config: JsonObject = Field(
        default_factory=dict, description="Settings of the tool, by its kind."
    )
    tool_schema: JsonObject | None = Field(
        default=None,
        description="OpenAI schema of the tool; null: the default schema of its kind, or for mcp "
        "and openenv the tools that the server lists.",
    )
    sources: Sources | None = Field(
        default=None,
        description="Sources of the rows that are offered the tool, by their field source or "
        "data_source; null: all rows.",
    )


class RolloutSampling(Request):
    """How a rollout samples. The defaults leave the model's distribution unchanged, as training on
    the sampled log-probabilities requires."""

    max_tokens: StrictInt = Field(
        default=1024,
        ge=1,
        le=1_048_576,
        description="Maximum tokens of a response without tools; with tools a turn may take all "
        "that is left of max_total_response_length.",
    )
    temperature: Number = Field(default=1.0, ge=0.0, le=2.0, description="Sampling temperature.")
    top_p: Number = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling: share of the probability mass to sample from.",
    )
    top_k: StrictInt = Field(
        default=-1, ge=-1, description="Number of the most likely tokens to sample from; -1: all."
    )
    min_p: Number = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Minimum probability of a token, relative to the most likely one.",
    )
    stop: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=4, description="Texts that end a turn."
    )


PromptType = Literal["plain", "qwen_retool", "qwen_search_tool"]
"""The instruction added to a question; rows with messages are not changed."""


def conversation_warnings(
    multi_turn: MultiTurn, tools: Sequence[Tool], prompt_type: PromptType
) -> list[str]:
    """Warnings for the user about settings that are valid but rarely intended."""
    if not multi_turn.multi_turn_enable:
        return ["tools are never called: multi_turn.multi_turn_enable is false"] if tools else []
    if not tools:
        return ["multi_turn is enabled without tools: every rollout ends after one turn"]
    names = {tool.class_name.rpartition(".")[2].lower() for tool in tools}
    if "retool" in names and prompt_type == "plain":
        return [
            "prompt_type is plain: unless the prompts ask for it themselves, models do not use "
            "ReTool; qwen_retool does"
        ]
    return []
