"""Renders conversations as alternating texts: what the model reads, and what it learns to write."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    White space after a response belongs to the next context: generation has stopped before it.
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


def render_pair(
    preferred: Conversation, rejected: Conversation, template: TemplateRenderer
) -> tuple[str, tuple[str, str]]:
    """The prompt, and both answers; text that a template adds to only one answer is part of that
    answer."""
    first, second = render_answer(preferred, template), render_answer(rejected, template)
    shared = min(first.context, second.context, key=len)
    return shared, (
        first.context[len(shared) :] + first.response,
        second.context[len(shared) :] + second.response,
    )


def opened(conversation: Conversation, default_system: str | None) -> Conversation:
    """The conversation, with the default system message if it has none."""
    if default_system is None or conversation.messages[0].role == "system":
        return conversation
    system = Message("system", default_system)
    return replace(conversation, messages=(system, *conversation.messages))


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
