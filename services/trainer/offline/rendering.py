"""Renders conversations as alternating texts: what the model reads and what it learns to write."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from services.datasets.conversation import Conversation, Message
from services.datasets.record import RowError


class TemplateRenderer(Protocol):
    """Renders messages and tools as the model reads them."""

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        """The text; with ``prompt`` it ends where the assistant's next turn begins."""
        ...


@dataclass(frozen=True)
class Exchange:
    """A context, and the text that the model learns to write after it."""

    context: str
    response: str


def render(conversation: Conversation, template: TemplateRenderer) -> Iterator[list[Exchange]]:
    """The training examples of a conversation, in exactly the text that serving will show.

    A conversation is one example as long as the template only appends. Where it rewrites earlier
    turns (many drop old reasoning), a new example begins with the whole context as rendered then.
    White space after a response belongs to the next context: generation has stopped by then.
    """
    tools = list(conversation.tools)
    messages = [as_chat_message(message) for message in conversation.messages]
    example: list[Exchange] = []
    covered = ""
    for index, message in enumerate(conversation.messages):
        if not message.learned:
            continue
        prompt = template(messages[:index], tools, prompt=True)
        written = template(messages[: index + 1], tools, prompt=False)
        start = _shared_length(prompt, written)
        response = written[start:].rstrip()
        if not response:
            raise RowError(f"turn {index}: the chat template renders nothing for the assistant")
        if example and not written.startswith(covered):
            yield example
            example, covered = [], ""
        example.append(Exchange(written[len(covered) : start], response))
        covered = written[: start + len(response)]
    yield example


def render_answer(conversation: Conversation, template: TemplateRenderer) -> Exchange:
    """The last answer of a conversation after everything before it."""
    tools = list(conversation.tools)
    messages = [as_chat_message(message) for message in conversation.messages]
    prompt = template(messages[:-1], tools, prompt=True)
    written = template(messages, tools, prompt=False)
    start = _shared_length(prompt, written)
    response = written[start:].rstrip()
    if not response:
        raise RowError("the chat template renders nothing for the answer")
    return Exchange(written[:start], response)


def _shared_length(prompt: str, written: str) -> int:
    """Where the response begins: after the prompt, unless the template writes it differently."""
    if written.startswith(prompt):
        return len(prompt)
    pairs = zip(prompt, written, strict=False)
    return next(i for i, (a, b) in enumerate(chain(pairs, [("", "end")])) if a != b)


def as_chat_message(message: Message) -> dict[str, Any]:
    """A message in the form that chat templates expect."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call.id or f"call_{index}",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(message.tool_calls)
        ]
    if message.name is not None:
        turn["name"] = message.name
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    return turn


def alternate(conversation: Conversation, between_results: str) -> tuple[str, list[dict[str, str]]]:
    """The system text and the turns in LLaMA-Factory's sharegpt format.

    Its templates need alternating turns, so results of parallel calls become one turn, joined by
    ``between_results``. Raises RowError for a conversation that does not fit.
    """
    messages = list(conversation.messages)
    system = messages.pop(0).content if messages[0].role == "system" else ""
    turns: list[dict[str, str]] = []
    for message in messages:
        turn = _sharegpt_turn(message)
        if turns and turn["from"] == turns[-1]["from"] == "observation":
            turns[-1]["value"] += between_results + turn["value"]
        else:
            turns.append(turn)
    _check_alternation(turns)
    return system, turns


def _sharegpt_turn(message: Message) -> dict[str, str]:
    if message.role == "system":
        raise RowError("has a system message after the first turn; named templates take only one")
    if message.role != "assistant":
        return {"from": "observation" if message.role == "tool" else "human"} | {
            "value": message.content
        }
    if not message.learned:
        raise RowError("has an assistant turn of weight 0; named templates learn every turn")
    thought = f"<think>\n{message.reasoning}\n</think>\n\n" if message.reasoning else ""
    if not message.tool_calls:
        return {"from": "gpt", "value": thought + message.content}
    calls = json.dumps(
        [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        ensure_ascii=False,
    )
    before = thought + message.content
    # LLaMA-Factory tells text from calls by these markers.
    value = f"{before}\n<tool_call>{calls}</tool_call>" if before else calls
    return {"from": "function_call", "value": value}


def _check_alternation(turns: Sequence[dict[str, str]]) -> None:
    for index, turn in enumerate(turns):
        asks = turn["from"] in {"human", "observation"}
        if asks != (index % 2 == 0):
            raise RowError(
                f"turn {index} is of {turn['from']}; named templates need alternating turns"
            )
