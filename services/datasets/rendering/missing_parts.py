"""What of a conversation is not in the text that a template makes of it."""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from services.datasets.conversation import Conversation, Message
from services.datasets.rendering.exchanges import Exchange
from services.datasets.rendering.guarded import without_guards

_THOUGHT = ("<think>", "</think>")
_SAMPLE = 60


class Part(StrEnum):
    """A part of a message that a template may leave out."""

    TOOL = "tool"
    CONTENT = "content"
    REASONING = "reasoning"
    CALL = "call"
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True)
class Missing:
    """A part of the message at ``turn``, counted from 0, that is not in the text; ``sample`` is its
    beginning. ``is_learned`` parts are what the model should have learned to write. A tool on offer
    is of no turn."""

    turn: int | None
    role: str
    part: Part
    sample: str
    is_learned: bool

    def __str__(self) -> str:
        place = "" if self.turn is None else f"turn {self.turn} ({self.role}): "
        return f"{place}{self.part} {self.sample!r}"


def missing_parts(
    conversation: Conversation,
    examples: Sequence[Sequence[Exchange]],
    *,
    learns_whole: bool = False,
) -> list[Missing]:
    """What of a conversation none of its examples holds.

    Of a learned turn, content, reasoning and calls must be in its own response; of other turns,
    content and calls must be anywhere in the last example, as must the names of tools. Their
    reasoning may be left out, as templates do for all but the latest turn, unless the model
    ``learns_whole`` examples, where learned turns without a response of their own must be in the
    last one. White space and the notation of values (JSON, Python, XML) do not count.
    """
    responses = [without_guards(each.response) for example in examples for each in example]
    turns = [n for n, message in enumerate(conversation.messages) if message.learned]
    own = dict(zip(turns[-len(responses) :], responses, strict=True)) if turns else {}
    whole = without_guards("".join(each.context + each.response for each in examples[-1]))
    tools = [str(tool["function"]["name"]) for tool in conversation.tools]
    dropped = [
        Missing(None, "", Part.TOOL, name[:_SAMPLE], is_learned=False)
        for name in tools
        if not _occurs(name, whole, 1)
    ]
    return dropped + [
        Missing(turn, message.role, part, str(value).strip()[:_SAMPLE], is_learned)
        for turn, message in enumerate(conversation.messages)
        for is_learned in (turn in own or (learns_whole and message.learned),)
        for part, value in _missing(message, own.get(turn), whole, is_learned=is_learned)
    ]


def missing_in_prompt(prompt: Conversation, rendered: str) -> list[Missing]:
    """What of a prompt, which may hold earlier answers, its rendered text does not show."""
    unlearned = (replace(message, learned=False) for message in prompt.messages)
    return missing_parts(Conversation(tuple(unlearned), prompt.tools), [[Exchange(rendered, "")]])


def _missing(
    message: Message, own: str | None, whole: str, *, is_learned: bool
) -> Iterator[tuple[Part, Any]]:
    """The parts of a message that are not in its own text or, without one, in the whole."""
    parts = list(_parts(message))
    if own is None:
        wanted = (each for each in parts if is_learned or each[0] is not Part.REASONING)
        yield from (each for each in wanted if not _occurs(each[1], whole, 1))
        return
    # A short part may occur inside another one, so that occurrences are counted.
    given = "\0".join(str(value) for _, value in parts)
    for part, value in parts:
        if not _occurs(value, own, _count(value, given)):
            yield part, value


def _occurs(value: Any, text: str, times: int) -> bool:
    """Whether a text has a value often enough, in any notation and with any white space."""
    if _count(value, text) >= times:
        return True
    bare = _unspaced(str(value))
    return isinstance(value, str) and _unspaced(text).count(bare) >= times


def _count(value: Any, text: str) -> int:
    return sum(text.count(form) for form in dict.fromkeys(_forms(value)))


def _parts(message: Message) -> Iterator[tuple[Part, Any]]:
    """The parts of a message that are not empty."""
    content, thought = message.content, ""
    opening, closing = _THOUGHT
    if message.role == "assistant" and closing in content:
        thought, _, content = content.partition(closing)
    yield from _text(Part.CONTENT, content)
    yield from _text(Part.REASONING, thought.replace(opening, "", 1))
    yield from _text(Part.REASONING, message.reasoning)
    for call in message.tool_calls:
        yield Part.CALL, call.name
        for value in _leaves(call.arguments):
            yield Part.ARGUMENT, value


def _text(part: Part, text: str) -> Iterator[tuple[Part, str]]:
    if text.strip():
        yield part, text


def _leaves(value: Any) -> Iterator[Any]:
    """Keys and values inside a value; null and empty ones have no text to look for."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(key)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None and str(value).strip():
        yield value


def _forms(value: Any) -> Iterator[str]:
    """The notations of a value in templates: as it is, in JSON, in JSON inside JSON, in Python, in
    XML."""
    if not isinstance(value, str):
        yield json.dumps(value)
        yield str(value)
        return
    text = value.strip()
    yield text
    for ascii_only in (False, True):
        quoted = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield quoted
        yield json.dumps(quoted, ensure_ascii=ascii_only)[1:-1]
    yield repr(text)[1:-1]
    yield html.escape(text)
    yield html.escape(text, quote=False)


def _unspaced(text: str) -> str:
    return "".join(text.split())
