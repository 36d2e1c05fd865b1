"""Rows as examples of LLaMA-Factory's sharegpt format, by their kind.

Where the model's own chat template is used, the turns already hold the text that it renders.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import Conversation, ConversationReader, ConversationRow
from services.datasets.record import JsonValue, RowError
from services.datasets.rendering.exchanges import TemplateRenderer, opened
from services.datasets.rendering.rows import RenderedRow, RowRenderer, TrainingSequence
from services.datasets.rendering.text_encoding import TextEncoder
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.alternation import alternate

RENDERED = "empty"
"""LLaMA-Factory's template that adds nothing to the texts it is given."""

LibraryRow = dict[str, Any]


@dataclass(frozen=True)
class Rendering:
    """A chat template and tokenizer, and the settings that determine tokens. The template is None
    for plain text, which ends with ``end_of_text`` and is split unless ``splits_text`` is false."""

    chat_template: TemplateRenderer | None
    encode: TextEncoder
    tokens: TokenSettings
    end_of_text: str = ""
    splits_text: bool = True


@dataclass(frozen=True)
class ExampleLayout:
    """How conversations become text: by ``rendering``, or by a named template of the library.
    ``shown`` renders what the library makes of rows that it renders itself, for a report alone.

    ``guard`` marks special tokens in plain text that are to be ordinary text.
    ``default_system`` is the system message of conversations without one. For a named template,
    which has its own, ``between_results`` joins the results of parallel tool calls and
    ``stop_words`` end a turn.
    """

    name: str
    rendering: Rendering | None = None
    shown: Rendering | None = None
    guard: Callable[[str], str] | None = None
    default_system: str | None = None
    between_results: str = "\n"
    stop_words: tuple[str, ...] = ()

    def named_turns(self, conversation: Conversation) -> LibraryRow:
        """A row for a named template of the library; raises RowError."""
        system, turns = alternate(conversation, self.between_results)
        tools = json.dumps(conversation.tools, ensure_ascii=False) if conversation.tools else ""
        return {"conversations": turns, "system": system, "tools": tools}


@dataclass(frozen=True)
class LibraryExamples:
    """A row for the library as one or more of its own; none if training cannot learn from it.

    ``responses`` are the texts that the model learns to write. ``rendered`` says what becomes of
    the row; None where a named template cannot show it.
    """

    rows: list[LibraryRow]
    responses: tuple[str, ...] = ()
    rendered: RenderedRow | None = None


class ExampleReader:
    """Turns rows of one kind into examples; raises RowError."""

    def __init__(
        self,
        kind: RowKind,
        data_format: DataFormat,
        layout: ExampleLayout,
        *,
        joins_turns: bool = False,
    ) -> None:
        self._kind = kind
        self._layout = layout
        self._rows = ConversationReader(kind, data_format, joins_turns=joins_turns)
        self._renderer = self._row_renderer(layout.rendering)
        self._shown = self._row_renderer(layout.shown)

    def read(self, row: JsonValue) -> LibraryExamples:
        """The examples of a row; more than one where a template rewrites earlier turns."""
        read = self._rows.read(row)
        if self._renderer is not None:
            return _rendered(self._renderer.render(row, read))
        rendered = self._shown_row(row, read)
        if self._kind is RowKind.TEXT:
            guard = self._layout.guard
            text = guard(row["text"]) if guard else row["text"]
            return LibraryExamples([{"text": text}], rendered=rendered)
        conversations = [opened(each, self._layout.default_system) for each in read.conversations]
        return replace(_named(conversations, read.label, self._layout), rendered=rendered)

    def _row_renderer(self, found: Rendering | None) -> RowRenderer | None:
        if found is None:
            return None
        return RowRenderer(
            self._kind,
            found.chat_template,
            found.encode,
            found.tokens,
            default_system=self._layout.default_system,
            end_of_text=found.end_of_text,
            splits_text=found.splits_text,
        )

    def _shown_row(self, row: JsonValue, read: ConversationRow) -> RenderedRow | None:
        if self._shown is None:
            return None
        try:
            return self._shown.render(row, read)
        except RowError:  # what the library trains is not cut where a chat template's text is
            return None


def described(kind: RowKind, file_name: str) -> dict[str, Any]:
    """The entry of a file of examples in ``dataset_info.json``."""
    return {"file_name": file_name, **_DESCRIPTIONS[kind]}


def _named(
    conversations: Sequence[Conversation], label: bool | None, layout: ExampleLayout
) -> LibraryExamples:
    """The turns of a named template."""
    row = layout.named_turns(conversations[0])
    last = row["conversations"][-1]
    learned = [each["value"] for each in row["conversations"] if each["from"] in _LEARNED]
    if len(conversations) > 1:
        other = layout.named_turns(conversations[1])["conversations"][-1]
        turns = row["conversations"][:-1]
        row = {**row, "conversations": turns, "chosen": last, "rejected": other}
    elif label is not None:
        row = {**row, "kto_tag": label}
    is_demonstration = len(conversations) == 1 and label is None
    return LibraryExamples([row], tuple(learned if is_demonstration else learned[-1:]))


def _rendered(row: RenderedRow) -> LibraryExamples:
    """The texts of a row that the model's own template has rendered."""
    usable = row.usable
    if not usable:
        return LibraryExamples([], rendered=row)
    if row.is_pair:
        preferred, rejected = (each.exchanges[0] for each in usable)
        chosen, other = (_turn("gpt", each.response) for each in (preferred, rejected))
        turns = _library_row([_turn("human", preferred.context)])
        rows = [{**turns, "chosen": chosen, "rejected": other}]
    else:
        label = {} if row.label is None else {"kto_tag": row.label}
        rows = [{**_library_row(_turns(each)), **label} for each in usable]
    learned = usable[:1] if row.is_pair else usable
    responses = tuple(each.response for sequence in learned for each in sequence.exchanges)
    return LibraryExamples(rows, responses, row)


def _turns(sequence: TrainingSequence) -> list[dict[str, str]]:
    return [
        turn
        for each in sequence.exchanges
        for turn in (_turn("human", each.context), _turn("gpt", each.response))
    ]


def _library_row(turns: list[dict[str, str]]) -> LibraryRow:
    return {"conversations": turns, "system": "", "tools": ""}


def _turn(role: str, text: str) -> dict[str, str]:
    return {"from": role, "value": text}


_LEARNED = ("gpt", "function_call")
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
