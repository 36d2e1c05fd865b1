"""Chat templates: sandboxed Jinja in transformers' dialect."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.contracts.base import JsonObject
from services.rollouts.chat.files import refused


class ChatTemplate:
    """A compiled template.

    Its date is that of the compilation, so that a conversation that crosses midnight keeps its
    prefix.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises InvalidRequest for invalid Jinja."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = datetime.now().astimezone().strftime
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise refused(f"the chat template is not valid Jinja: {error}") from None
        self._special_tokens = dict(special_tokens)

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
                **self._special_tokens,
            )
        except Exception as error:  # third-party code: may raise anything
            reason = str(error)[:500] or type(error).__name__
            raise refused(f"the chat template refuses the conversation: {reason}") from None


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
