"""Chat templates whose messages hold no special tokens but those that the template writes."""

from collections.abc import Callable
from typing import Any

from services.datasets.rendering.exchanges import ChatMessage, TemplateRenderer
from services.datasets.rendering.guarded import check_guards, mapped


class GuardingTemplate:
    """A chat template that renders guarded texts; its own control tokens have no guards."""

    def __init__(self, template: TemplateRenderer, guard: Callable[[str], str]) -> None:
        self._template = template
        self._guard = guard

    def __call__(
        self, messages: list[ChatMessage], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        guard = self._guard
        guarded = [mapped(each, guard) for each in messages]
        rendered = self._template(guarded, [mapped(each, guard) for each in tools], prompt=prompt)
        check_guards(rendered)
        return rendered
