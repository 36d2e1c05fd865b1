"""Renders conversations as alternating texts: what the model reads, and what it learns to write.

The texts are cut between tokens, where the generation prompt ends: the ids of the parts are those
of the whole text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Protocol

from services.datasets.conversation import Conversation, Message
from services.datasets.message_fields import REASONING_KEYS
from services.datasets.record import RowError
from services.datasets.rendering.text_encoding import EncodedText, TextEncoder

ChatMessage = dict[str, Any]
"""A message in the form that chat templates expect."""


class TemplateRenderer(Protocol):
    """Renders messages and tools as the model reads them."""

    def __call__(
        self, messages: list[ChatMessage], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        """The text; with ``prompt`` it ends where the assistant's next turn begins."""
        ...


@dataclass(frozen=True)
class Exchange:
    """A context, and the text that the model learns to write after it.

    ``is_served`` says whether the context ends as the prompt does that serving sends.
    """

    context: str
    response: str
    is_served: bool = True


@dataclass(frozen=True)
class _Turn:
    """A learned turn: the whole text up to its end, and where the model begins to write."""

    text: str
    start: int
    is_served: bool


def render(
    conversation: Conversation, template: TemplateRenderer, encode: TextEncoder
) -> Iterator[list[Exchange]]:
    """The training examples of a conversation, in exactly the text that serving will show.

    A conversation is one example as long as the template only appends. Where it rewrites earlier
    turns (many drop old reasoning), a new example begins with the whole context as rendered then.
    White space after a response belongs to the next context: generation has stopped before it.
    """
    renderer = _Renderer(conversation, template, encode)
    turns: list[_Turn] = []
    for index, message in enumerate(conversation.messages):
        if not message.learned:
            continue
        turn = renderer.turn(index)
        if turns and not turn.text.startswith(turns[-1].text):
            yield renderer.exchanges(turns)
            turns = []
        turns.append(turn)
    yield renderer.exchanges(turns)


def render_answer(
    conversation: Conversation,
    template: TemplateRenderer,
    encode: TextEncoder,
    *,
    is_scored: bool = False,
) -> Exchange:
    """The last answer of a conversation after everything before it.

    One that ``is_scored`` is read, not written: nothing follows it that would stop a model.
    """
    renderer = _Renderer(conversation, template, encode, stops=not is_scored)
    (exchange,) = renderer.exchanges([renderer.turn(len(conversation.messages) - 1)])
    return exchange


def render_pair(
    preferred: Conversation,
    rejected: Conversation,
    template: TemplateRenderer,
    encode: TextEncoder,
    *,
    is_scored: bool = False,
) -> tuple[Exchange, Exchange]:
    """Both answers after one context, as `render_answer` gives them; text that a template adds to
    only one answer is part of that answer."""
    first, second = (
        render_answer(each, template, encode, is_scored=is_scored) for each in (preferred, rejected)
    )
    size = min(len(first.context), len(second.context))
    texts = [encode(each.context + each.response) for each in (first, second)]
    tokens = min(text.before(size) for text in texts)
    shared = _shared_tokens(texts[0], texts[1], tokens)
    begin = min(size, texts[0].begin(shared))
    is_served = first.is_served and second.is_served and begin == size
    return (
        Exchange(first.context[:begin], first.context[begin:] + first.response, is_served),
        Exchange(second.context[:begin], second.context[begin:] + second.response, is_served),
    )


def render_messages(conversation: Conversation, template: TemplateRenderer, *, prompt: bool) -> str:
    """The text of a conversation; a ``prompt`` ends where the assistant's turn begins."""
    messages = [as_chat_message(each) for each in conversation.messages]
    return _rendered(messages, list(conversation.tools), template, prompt=prompt)


def opened(conversation: Conversation, default_system: str | None) -> Conversation:
    """The conversation, with the default system message if it has none."""
    if default_system is None or conversation.messages[0].role == "system":
        return conversation
    system = Message("system", default_system)
    return replace(conversation, messages=(system, *conversation.messages))


class _Renderer:
    """Renders the learned turns of one conversation; with ``stops`` each ends with a token that
    stops the model."""

    def __init__(
        self,
        conversation: Conversation,
        template: TemplateRenderer,
        encode: TextEncoder,
        *,
        stops: bool = True,
    ) -> None:
        self._stops = stops
        self._messages = [as_chat_message(message) for message in conversation.messages]
        self._tools = list(conversation.tools)
        self._template = template
        self._encode = encode

    def turn(self, index: int) -> _Turn:
        """The learned turn at an index, with everything before it."""
        prompt = self._render(self._messages[:index], prompt=True)
        written = self._render(self._messages[: index + 1], prompt=False)
        is_served = written.startswith(prompt)
        start = len(prompt) if is_served else self._content_start(index, prompt, written)
        if not written[start:].strip():
            raise RowError(f"turn {index}: the chat template renders nothing for the assistant")
        if not is_served and (header := self._served_header(index, prompt, written[:start])):
            written = prompt + written[len(header) :]
            start, is_served = len(prompt), True
        text = written.rstrip()
        end = self._next_marker(index, text) if self._stops else ""
        return _Turn(text + end, start, is_served)

    def _served_header(self, index: int, prompt: str, header: str) -> str:
        """The text before an answer, if the answer can follow the prompt because both end alike;
        empty otherwise. Some templates show a system message or earlier reasoning only as long as a
        user has the last word, and it is the prompt that serving sends."""
        before = self._render(self._messages[:index], prompt=False)
        opening = prompt.removeprefix(before) if prompt.startswith(before) else prompt
        ends = (header, header.rstrip())
        return next((e for e in ends if e.endswith(opening) and e[-1:] == prompt[-1:]), "")

    def exchanges(self, turns: Sequence[_Turn]) -> list[Exchange]:
        """Contexts and responses, cut between the tokens of the last turn's text."""
        whole = self._encode(turns[-1].text)
        exchanges, covered = [], 0
        for turn in turns:
            start = max(covered, self._cut(whole, turn.start))
            is_served = turn.is_served and start == turn.start
            exchanges.append(
                Exchange(whole.text[covered:start], turn.text[start:], is_served),
            )
            covered = len(turn.text)
        return exchanges

    def _cut(self, whole: EncodedText, place: int) -> int:
        """The end of the tokens that a text up to ``place`` shares with the whole."""
        if whole.is_boundary(place):
            return place
        prompt = self._encode(whole.text[:place])
        return whole.begin(_shared_tokens(prompt, whole, whole.before(place)))

    def _content_start(self, index: int, prompt: str, written: str) -> int:
        """Where an answer begins that the template does not write after the generation prompt:
        behind the header that it writes in its place, or else behind the tokens that both share."""
        bare = {"role": self._messages[index]["role"], "content": _STAND_IN}
        try:
            stood_in = self._render([*self._messages[:index], bare], prompt=False)
        except RowError:
            stood_in = ""
        header, found, _ = stood_in.rpartition(_STAND_IN)
        if found and written.startswith(header):
            return len(header)
        text = self._encode(written)
        return text.begin(_shared_tokens(self._encode(prompt), text, len(text)))

    def _next_marker(self, index: int, text: str) -> str:
        """For a template that does not end the assistant's turn: the special token with which it
        begins the next one, as that is what stops the model. Empty where there is none."""
        special = self._encode.special
        if not special or text.endswith(tuple(special)):
            return ""
        before, turn = self._messages[:index], self._messages[index]
        role = "tool" if turn.get("tool_calls") else "user"
        following = self._messages[index + 1 : index + 2] or [{"role": role, "content": "?"}]
        bare = {"role": turn["role"], "content": _STAND_IN}
        for answer, end in ((turn, text), (bare, _STAND_IN)):
            try:
                longer = self._render([*before, answer, *following], prompt=False)
            except RowError:
                continue
            _, found, rest = longer.rpartition(end)
            marker = rest.lstrip()
            if found and (tokens := [each for each in special if marker.startswith(each)]):
                return rest[: len(rest) - len(marker)] + max(tokens, key=len)
        return ""

    def _render(self, messages: list[ChatMessage], *, prompt: bool) -> str:
        return _rendered(messages, self._tools, self._template, prompt=prompt)


_STAND_IN = "0123456789"
"""Content of a message whose place in the rendered text is looked for."""


def _rendered(
    messages: list[ChatMessage],
    tools: list[dict[str, Any]],
    template: TemplateRenderer,
    *,
    prompt: bool,
) -> str:
    """The text; arguments of calls are objects, or JSON where the template takes only text."""
    try:
        return template(messages, tools, prompt=prompt)
    except RowError:
        if not any(message.get("tool_calls") for message in messages):
            raise
        return template([_encoded(each) for each in messages], tools, prompt=prompt)


def _encoded(message: ChatMessage) -> ChatMessage:
    """A message whose calls have their arguments as JSON."""
    if not (calls := message.get("tool_calls")):
        return message
    functions = [
        {
            **call["function"],
            "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
        }
        for call in calls
    ]
    pairs = zip(calls, functions, strict=True)
    return {**message, "tool_calls": [{**call, "function": each} for call, each in pairs]}


def _shared_tokens(first: EncodedText, second: EncodedText, most: int) -> int:
    """The number of tokens, up to ``most``, that two texts have in common at their beginning."""
    pairs = zip(first.ids[:most], second.ids[:most], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def reasoning_key(template: str) -> str:
    """The key under which a chat template, given as its source, reads reasoning."""
    reads = (key for key in REASONING_KEYS if re.search(rf"[.'\"]{key}\b", template))
    return next(reads, REASONING_KEYS[0])


def with_reasoning_as(key: str, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Messages with their reasoning under another key."""
    return [
        {(key if name in REASONING_KEYS else name): value for name, value in message.items()}
        for message in messages
    ]


def as_chat_message(message: Message) -> ChatMessage:
    """A message in the form that chat templates expect."""
    turn: ChatMessage = {"role": message.role, "content": message.content}
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
