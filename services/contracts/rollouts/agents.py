"""Agents that play rollouts in place of Temper's own loop."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AnyHttpUrl, Field, StrictInt

from services.contracts.base import JsonObject, Number, Request
from services.contracts.rewards.rewards import (
    AgentReward,
    DottedPath,
    EnvironmentReward,
    WeightedReward,
)
from services.contracts.rollouts.multi_turn import ENVIRONMENT, Tool
from services.contracts.validation import AtField


class AgentLimits(Request):
    """Bounds of one session of an agent."""

    timeout: Number = Field(
        default=600.0, gt=0.0, le=86_400.0, description="Time limit of a session, in seconds."
    )
    max_model_calls: StrictInt = Field(
        default=64, ge=1, le=10_000, description="Maximum requests to the model in one session."
    )


class HttpAgent(AgentLimits):
    """An agent behind a URL.

    A POST of {session_id, base_url, api_key, model, messages, extra} as JSON starts a session, and
    its answer ends it: a JSON object, of which `reward` (a number) is read.
    """

    type: Literal["http"] = "http"
    url: AnyHttpUrl = Field(description="URL of the agent; the operator must allow its origin.")


class CallableAgent(AgentLimits):
    """An agent that is a Python function in a process of its own.

    The function is called with session_id, base_url, api_key, model, messages, extra and the
    arguments by keyword. It returns null or an object, of which `reward` (a number) is read.
    """

    type: Literal["callable"] = "callable"
    function: DottedPath = Field(description="Function, as module.name, that the operator allows.")
    arguments: JsonObject = Field(
        default_factory=dict, description="Further arguments of the function, by keyword."
    )
    processes: StrictInt = Field(
        default=8, ge=1, le=256, description="Number of sessions that run at the same time."
    )


class CommandAgent(AgentLimits):
    """An agent that is a program of the operator, started once for each session.

    Its working folder is empty but for `session.json`: {session_id, base_url, api_key, model,
    messages, extra, arguments}. OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL,
    ANTHROPIC_API_KEY, TEMPER_MODEL and TEMPER_SESSION (the path of that file) are set. Exit code 0
    ends the session; POST /v1/reward sets its reward.
    """

    type: Literal["command"] = "command"
    command: str = Field(
        min_length=1,
        max_length=200,
        description="Name of the command in the operator's TEMPER_AGENT_COMMANDS.",
    )
    arguments: JsonObject = Field(
        default_factory=dict, description="Settings that the command finds in `session.json`."
    )
    processes: StrictInt = Field(
        default=8, ge=1, le=256, description="Number of sessions that run at the same time."
    )


Agent = Annotated[HttpAgent | CallableAgent | CommandAgent, Field(discriminator="type")]


def check_agent_fields(
    agent: object,
    tools: Sequence[Tool],
    rewards: Sequence[WeightedReward],
    settings: tuple[str, ...] = (),
) -> None:
    """Raise `AtField` for settings that contradict who plays the rollouts; ``settings`` leads to
    the object that has the tools."""
    if agent is not None and tools:
        raise AtField(
            (*settings, "tools"), "tools are for Temper's own loop: an agent brings its own"
        )
    if agent is None and any(isinstance(each.reward, AgentReward) for each in rewards):
        raise AtField("rewards", "a reward of type agent needs an agent that plays the rollouts")
    if not any(tool.class_name == ENVIRONMENT for tool in tools) and any(
        isinstance(each.reward, EnvironmentReward) for each in rewards
    ):
        raise AtField(
            "rewards", f"a reward of type environment needs a tool of class {ENVIRONMENT}"
        )
