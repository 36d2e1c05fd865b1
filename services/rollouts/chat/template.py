"""Chat templates: sandboxed Jinja in transformers' dialect, and how they render tool replies."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import JsonValue
from services.datasets.rendering.guarded import SENTINEL
from services.rollouts.chat.files import refused


class ChatTemplate:
    """A compiled template.

    Its date is fixed at compilation, so that a conversation that crosses midnight keeps its prefix.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        variables: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """``variables`` are the template's variables from the request, such as enable_thinking.
        Raises InvalidRequest for invalid Jinja."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = datetime.now().astimezone().strftime
        try:
            self._template = environment.from_string(source)
            self.reads = frozenset(meta.find_undeclared_variables(environment.parse(source)))
        except jinja2.TemplateError as error:
            raise refused(f"the chat template is not valid Jinja: {error}") from None
        self._variables = {**special_tokens, **(variables or {})}

    def render(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject] = (),
        *,
        opening: bool = False,
    ) -> str:
        """The text of a conversation; with ``opening`` up to the start of the model's turn.

        Raises InvalidRequest with the template's reason if it refuses the conversation.
        """
        try:
            return self._template.render(
                messages=list(messages),
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=opening,
                **self._variables,
            )
        except Exception as error:  # third-party code: may raise anything
            reason = str(error)[:500] or type(error).__name__
            raise refused(f"the chat template refuses the conversation: {reason}") from None


def check_variables(variables: Iterable[str], *templates: ChatTemplate) -> None:
    """Raise InvalidRequest for a variable that none of the templates reads."""
    read = {name for template in templates for name in template.reads}
    for name in variables:
        if name not in read:
            raise InvalidRequest(
                f"the model's chat template does not read {name}", param="chat_template_kwargs"
            )


class _GenerationBlock(Extension):
    """``{% generation %}`` marks the model's text; only its content is rendered here."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


_USER: JsonObject = {"role": "user", "content": "?"}
_TURN = f"{SENTINEL}turn{SENTINEL}"
_TOOL = "tool"
_CALL_ID = re.compile(r"[0-9A-Za-z]{9}")  # required by Mistral's templates


class ReplyTurns:
    """Renders tool replies after a stand-in for the model's turn.

    ``end`` is the special token with which the template ends the model's turn, None if it has none.
    """

    def __init__(self, template: ChatTemplate, end: str | None) -> None:
        """Find a stand-in that the template accepts; raises InvalidRequest if it cannot render
        tool replies at all."""
        self._template = template
        self._end = end
        self._stand_in = self._fitting_stand_in()

    def text(
        self, replies: Sequence["GuardedReply"], further: Sequence[JsonObject] = ()
    ) -> tuple[str, str]:
        """What follows the model's own text: the end of its turn, and the replies, ``further``
        messages and the header of its next turn. Raises InvalidRequest if the template refuses
        them."""
        return self._after_turn(self._stand_in, replies, further)

    def _after_turn(
        self,
        stand_in: "_StandIn",
        replies: Sequence["GuardedReply"],
        further: Sequence[JsonObject] = (),
    ) -> tuple[str, str]:
        turn = stand_in([reply.call_id for reply in replies])
        messages = [*(reply.message() for reply in replies), *further]
        before, end, following = _after(self._template, turn, messages, self._end)
        return (before if stand_in is _text_only else "") + end, following

    def _fitting_stand_in(self) -> "_StandIn":
        reason = ""
        for stand_in in (_with_calls, _with_one_call, _text_only):
            try:
                if all(self._shows(stand_in, count) for count in (1, 2)):
                    return stand_in
                reason = "it omits them"
            except InvalidRequest as error:
                reason = error.message
        raise refused(f"the chat template cannot render tool replies: {reason}")

    def _shows(self, stand_in: "_StandIn", count: int) -> bool:
        """Whether ``count`` replies are all rendered, after the end of the turn."""
        contents = [f"reply {number}" for number in range(count)]
        behind = "".join(self._after_turn(stand_in, replies_to(contents, (), ())))
        places = [behind.find(text) for text in (self._end or "", *contents)]
        return -1 not in places and places == sorted(places)


@dataclass(frozen=True)
class GuardedReply:
    """A tool's reply as guarded text."""

    content: str
    name: str
    call_id: str

    def message(self) -> JsonObject:
        """The message for the template."""
        return {
            "role": "tool",
            "name": self.name,
            "content": self.content,
            "tool_call_id": self.call_id,
        }


def replies_to(
    contents: Iterable[str], names: Iterable[str], call_ids: Iterable[str | None]
) -> list[GuardedReply]:
    """Replies with tool names and the call ids that the model wrote; missing names and ids that
    templates reject are replaced."""
    replies = []
    for number, (content, name, call_id) in enumerate(zip_longest(contents, names, call_ids)):
        if content is None:
            break
        usable = _CALL_ID.fullmatch(call_id or "")
        made_up = f"call{number:05d}"
        replies.append(GuardedReply(content, name or _TOOL, usable.group() if usable else made_up))
    return replies


def after_answer(
    template: ChatTemplate, end: str | None, messages: Sequence[JsonObject]
) -> tuple[str, str]:
    """What follows the text of a turn without calls: its end, and ``messages`` with the header of
    the model's next turn. Raises InvalidRequest if the template refuses them."""
    before, end, following = _after(template, _text_only(()), messages, end)
    return before + end, following


def _after(
    template: ChatTemplate, turn: JsonObject, messages: Sequence[JsonObject], end: str | None
) -> tuple[str, str, str]:
    """The text between a stand-in's turn and the token that ends it, that token, and the rest."""
    _, stood_in, behind = template.render([_USER, turn, *messages], opening=True).rpartition(_TURN)
    if not stood_in:
        raise refused("the chat template omits the model's turn when tools reply")
    return ("", "", behind) if end is None else behind.partition(end)


_StandIn = Callable[[Sequence[str]], JsonObject]
"""Builds a message that stands in for the model's turn, from the ids of its calls."""


def _with_calls(identities: Sequence[str]) -> JsonObject:
    functions = [{"name": _TURN, "arguments": {}} for _ in identities]
    calls = [
        {"id": identity, "type": "function", "function": function}
        for identity, function in zip(identities, functions, strict=True)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _with_one_call(identities: Sequence[str]) -> JsonObject:
    """For templates that support a single call per turn."""
    return _with_calls(identities[:1])


def _text_only(_identities: Sequence[str]) -> JsonObject:
    return {"role": "assistant", "content": _TURN}


def end_of_turn(template: ChatTemplate, first_special: Callable[[str], str | None]) -> str | None:
    """The special token with which the template ends the model's turn, if any."""
    try:
        rendered = template.render([_USER, _text_only(())])
    except InvalidRequest:
        return None
    return first_special(rendered.rpartition(_TURN)[2])
