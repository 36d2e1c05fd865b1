"""Rows as examples of LLaMA-Factory's sharegpt format, by their kind.

Where the model's own chat template is used, the turns already hold the text that it renders.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.training_rows import DataFormat, RowKind
from services.datasets.conversation import Conversation, ConversationReader
from services.datasets.record import JsonValue
from services.datasets.rendering import (
    TemplateRenderer,
    opened,
    render,
    render_answer,
    render_pair,
)
from services.trainer.offline.alternation import alternate

RENDERED = "empty"
"""LLaMA-Factory's template that adds nothing to the texts it is given."""

LibraryRow = dict[str, Any]


@dataclass(frozen=True)
class ExampleLayout:
    """How conversations become text: by ``chat_template``, or by a named template of the library.

    ``default_system`` is the system message of conversations without one. For a named template,
    which has its own, ``between_results`` joins the results of parallel tool calls and
    ``stop_words`` end a turn.
    """

    name: str
    chat_template: TemplateRenderer | None = None
    default_system: str | None = None
    between_results: str = "\n"
    stop_words: tuple[str, ...] = ()

    def named_turns(self, conversation: Conversation) -> LibraryRow:
        """A row for a named template of the library; raises RowError."""
        system, turns = alternate(conversation, self.between_results)
        tools = json.dumps(conversation.tools, ensure_ascii=False) if conversation.tools else ""
        return {"conversations": turns, "system": system, "tools": tools}


@dataclass(frozen=True)
class LibraryExample:
    """A row for the library, and its final text: what the model learns to write last."""

    row: LibraryRow
    last_response: str


class ExampleReader:
    """Turns rows of one kind into examples; raises RowError."""

    def __init__(self, kind: RowKind, data_format: DataFormat, layout: ExampleLayout) -> None:
        self._kind = kind
        self._rows = ConversationReader(kind, data_format)
        self._layout = layout

    def read(self, row: JsonValue) -> Iterator[LibraryExample]:
        """The examples of a row; more than one where a template rewrites earlier turns."""
        read = self._rows.read(row)
        conversations = [opened(each, self._layout.default_system) for each in read.conversations]
        match self._kind:
            case RowKind.DEMONSTRATION:
                yield from _demonstrations(conversations[0], self._layout)
            case RowKind.PREFERENCE:
                preferred, rejected = conversations
                yield _preference(preferred, rejected, self._layout)
            case RowKind.FEEDBACK:
                yield _feedback(conversations[0], bool(read.label), self._layout)
            case RowKind.TEXT:
                yield LibraryExample({"text": row["text"]}, "")


def described(kind: RowKind, file_name: str) -> dict[str, Any]:
    """The entry of a file of examples in ``dataset_info.json``."""
    return {"file_name": file_name, **_DESCRIPTIONS[kind]}


def _demonstrations(conversation: Conversation, layout: ExampleLayout) -> Iterator[LibraryExample]:
    if layout.chat_template is None:
        row = layout.named_turns(conversation)
        yield LibraryExample(row, row["conversations"][-1]["value"])
        return
    for example in render(conversation, layout.chat_template):
        turns = []
        for exchange in example:
            turns += [_turn("human", exchange.context), _turn("gpt", exchange.response)]
        yield LibraryExample(_rendered(turns), example[-1].response)


def _preference(
    preferred: Conversation, rejected: Conversation, layout: ExampleLayout
) -> LibraryExample:
    if layout.chat_template is None:
        row = layout.named_turns(preferred)
        *turns, chosen = row["conversations"]
        other = layout.named_turns(rejected)["conversations"][-1]
        return LibraryExample(
            {**row, "conversations": turns, "chosen": chosen, "rejected": other}, chosen["value"]
        )
    context, responses = render_pair(preferred, rejected, layout.chat_template)
    chosen, other = (_turn("gpt", response) for response in responses)
    row = _rendered([_turn("human", context)])
    return LibraryExample({**row, "chosen": chosen, "rejected": other}, responses[0])


def _feedback(conversation: Conversation, label: bool, layout: ExampleLayout) -> LibraryExample:
    if layout.chat_template is None:
        row = layout.named_turns(conversation)
        return LibraryExample({**row, "kto_tag": label}, row["conversations"][-1]["value"])
    exchange = render_answer(conversation, layout.chat_template)
    row = _rendered([_turn("human", exchange.context), _turn("gpt", exchange.response)])
    return LibraryExample({**row, "kto_tag": label}, exchange.response)


def _rendered(turns: list[dict[str, str]]) -> LibraryRow:
    return {"conversations": turns, "system": "", "tools": ""}


def _turn(role: str, text: str) -> dict[str, str]:
    return {"from": role, "value": text}


_COLUMNS = {"messages": "conversations", "system": "system", "tools": "tools"}
_DESCRIPTIONS: dict[RowKind, dict[str, Any]] = {
    RowKind.DEMONSTRATION: {"formatting": "sharegpt", "columns": _COLUMNS},
    RowKind.PREFERENCE: {
        "formatting": "sharegpt",
        "ranking": True,
        "columns": {**_COLUMNS, "chosen": "chosen", "rejected": "rejected"},
    },
    RowKind.FEEDBACK: {"formatting": "sharegpt", "columns": {**_COLUMNS, "kto_tag": "kto_tag"}},
    RowKind.TEXT: {"formatting": "alpaca", "columns": {"prompt": "text"}},
}
