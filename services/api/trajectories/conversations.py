"""Trajectories as conversations in OpenAI's format: what was asked, answered, called and replied.

An agent's session has the messages as the agent had them. Those of Temper's own loop are made from
its turns: the calls as objects, so that a chat template writes them as it wrote them first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.contracts.base import JsonObject
from services.contracts.rollouts.agent_sessions import SequenceRole
from services.contracts.rollouts.trajectories import ToolCallRecord, Trajectory, Turn
from services.rewards.interface import without_turn_end
from services.rollouts.parsers import ToolParser


@dataclass(frozen=True)
class Conversation:
    """Messages up to the model's last answer. ``sequence`` is the number of the sequence in its
    session: 0 is the trajectory's own."""

    messages: list[JsonObject]
    tools: list[JsonObject]
    sequence: int = 0


def conversations(trajectory: Trajectory, parser: ToolParser) -> Iterator[Conversation]:
    """The conversations of a trajectory: one, or each that the agent itself held.

    A turn that an earlier one has too gets weight 0, so that training learns it once.
    """
    agent = trajectory.agent
    if agent is None:
        yield Conversation(_messages(trajectory, parser), trajectory.tools)
        return
    own = _numbered(agent.messages)
    before = [own]
    yield Conversation(own, trajectory.tools)
    for number, other in enumerate(agent.other_sequences, 1):
        if other.role is SequenceRole.AGENT:
            messages = _numbered(other.messages)
            shared = max(shared_messages(messages, each) for each in before)
            before.append(messages)
            yield Conversation(_unweighted(messages, shared), other.tools, number)


def shared_messages(one: Sequence[JsonObject], other: Sequence[JsonObject]) -> int:
    """The number of messages with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def prompt_of(trajectory: Trajectory) -> list[JsonObject]:
    """The messages of the prompt, which an agent may have rewritten."""
    agent = trajectory.agent
    return agent.prompt if agent is not None and agent.prompt else trajectory.messages


def _numbered(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages with ids of calls that say where they are, so that equal ones are equal."""
    names: dict[str, str] = {}

    def numbered(at: int, message: JsonObject) -> JsonObject:
        if calls := message.get("tool_calls"):
            names.update({str(call.get("id")): f"call_{at}_{n}" for n, call in enumerate(calls)})
            ids = (names[str(call.get("id"))] for call in calls)
            return {
                **message,
                "tool_calls": [{**c, "id": i} for c, i in zip(calls, ids, strict=True)],
            }
        replied = message.get("tool_call_id")
        return (
            message if replied is None else {**message, "tool_call_id": names.get(replied, replied)}
        )

    return [numbered(at, message) for at, message in enumerate(messages)]


def _unweighted(messages: Sequence[JsonObject], count: int) -> list[JsonObject]:
    return [
        {**message, "weight": 0} if at < count and message.get("role") == "assistant" else message
        for at, message in enumerate(messages)
    ]


def _messages(trajectory: Trajectory, parser: ToolParser) -> list[JsonObject]:
    messages = list(trajectory.messages)
    for turn in trajectory.turns:
        number = len(messages)
        called = [call for call in turn.calls if call.arguments is not None]
        messages.append(_answer(turn, called, number, trajectory.tools, parser))
        messages += [
            {"role": "tool", "tool_call_id": f"call_{number}_{at}", "content": call.shown}
            for at, call in enumerate(called)
            if call.shown is not None
        ]
    return messages


def _answer(
    turn: Turn,
    called: Sequence[ToolCallRecord],
    number: int,
    tools: Sequence[JsonObject],
    parser: ToolParser,
) -> JsonObject:
    text = without_turn_end(turn.text)
    if not called:
        return {"role": "assistant", "content": text}
    begin = parser.parse(text, tools).begin
    return {
        "role": "assistant",
        "content": text[:begin].strip(),
        "tool_calls": [
            {
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for at, call in enumerate(called)
        ],
    }
