"""Rows of training files by kind: demonstrations, preferences, feedback and text.

A preference is read as two demonstrations of one prompt, a row with feedback as one and a label, so
that every kind is checked by the rules of its format.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.contracts.training.rows import LABEL_COLUMNS, DataFormat, RowKind, unusable_column
from services.datasets.formats import (
    MAX_IGNORED,
    USED_COLUMNS,
    Example,
    detect_format,
    read_demonstration,
)
from services.datasets.message_fields import unknown_keys, untrained
from services.datasets.messages import check_object, check_text
from services.datasets.published_rows import as_known
from services.datasets.record import JsonValue, RowError, shown, without_padding

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prompt with one answer, as a row of its format, and its content."""

    row: Row
    example: Example


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A checked row: one demonstration, or two for a preference, the preferred one first.

    ``label`` says whether the answer of a row with feedback is desirable; None for other kinds.
    """

    demonstrations: tuple[Demonstration, ...]
    label: bool | None = None

    @property
    def examples(self) -> list[Example]:
        """The content of each demonstration."""
        return [each.example for each in self.demonstrations]

    @property
    def longest(self) -> Example:
        """The example with the most text."""
        return max(self.examples, key=lambda example: sum(len(text) for _, text in example.turns))


class TrainingRowReader:
    """Checks rows of one kind and format; with AUTO the first row with a known key decides which.

    ``ignored`` collects the columns, and the keys of messages, that training does not use.
    """

    def __init__(
        self, kind: RowKind, data_format: DataFormat, *, joins_turns: bool = False
    ) -> None:
        """``joins_turns`` joins consecutive messages of one role."""
        self._kind = kind
        self._joins_turns = joins_turns
        self._format = data_format
        self.ignored: set[str] = set()

    @property
    def format(self) -> DataFormat | None:
        """The format of the rows, None while it is unknown."""
        return None if self._format is DataFormat.AUTO else self._format

    def read(self, row: JsonValue) -> TrainingRow:
        """Check a row; a RowError names the path at fault."""
        if not isinstance(row, dict):
            raise RowError(f"is {shown(row)}, not an object")
        row, layout = as_known(without_padding(row), self._kind, joins_turns=self._joins_turns)
        if self._format is DataFormat.AUTO:
            self._format = _detect(self._kind, row)
        try:
            checked = _READERS[self._kind](row, self._format)
        except RowError as error:
            raise RowError(f"{layout}: {error.message}") if layout else error from None
        used = USED_COLUMNS[self._format] | _ANSWER_COLUMNS[self._kind]
        if unknown := row.keys() - used:
            if (unusable := unusable_column(row, self._kind)) is not None:
                raise RowError(unusable)
            if len(self.ignored) < MAX_IGNORED:
                self.ignored |= {name for name in unknown if row[name] is not None}
        for demonstration in checked.demonstrations:
            if len(self.ignored) < MAX_IGNORED:
                self.ignored.update(unknown_keys(demonstration.row))
        return checked


def _detect(kind: RowKind, row: Row) -> DataFormat:
    if kind is RowKind.TEXT:
        return DataFormat.TEXT
    if kind is RowKind.PREFERENCE and isinstance(row.get("input"), dict):
        return DataFormat.CHAT
    return detect_format(row)


def _read_demonstration(row: Row, data_format: DataFormat) -> TrainingRow:
    return TrainingRow((Demonstration(row, read_demonstration(data_format, row)),))


def _read_preference(row: Row, data_format: DataFormat) -> TrainingRow:
    preferred, rejected = _SIDES[data_format](row)
    pair = tuple(_side(data_format, *side) for side in (preferred, rejected))
    if pair[0].example.turns[-1] == pair[1].example.turns[-1]:
        raise RowError(f"{preferred[1]} and {rejected[1]} are equal")
    return TrainingRow(pair)


def _side(data_format: DataFormat, row: Row, path: str) -> Demonstration:
    """One answer of a preference after its prompt; errors name paths in the original row."""
    try:
        example = read_demonstration(data_format, row)
    except RowError as error:
        raise RowError(_relocated(error.message, row, path)) from None
    _check_answer(example, path)
    return Demonstration(row, example)


def _check_answer(example: Example, path: str) -> None:
    if not example.turns[-1][1].strip():
        raise RowError(f"{path} is an empty answer")


def _relocated(message: str, row: Row, path: str) -> str:
    """A message with paths of the original row, whose prompt and answers are separate."""
    if "messages" in row:
        last = len(row["messages"]) - 1
        message = re.sub(rf"^messages\[{last}\]", path, message)
        return re.sub(r"^(messages|tools|parallel_tool_calls)\b", r"input.\1", message)
    if "conversations" in row:
        last = len(row["conversations"]) - 1
        return re.sub(rf"^conversations\[{last}\]", path, message)
    return re.sub(r"^output\b", path, message)


def _chat_sides(row: Row) -> tuple[tuple[Row, str], tuple[Row, str]]:
    """OpenAI's rows, whose answers are lists of one message."""
    given = check_object(row.get("input"), "input")
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RowError("input.messages must be a list of at least one message")
    if isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant":
        raise RowError("input.messages must end before the assistant's answer")
    unlearned = [untrained(message) for message in messages]

    def side(name: str) -> tuple[Row, str]:
        answers = row.get(name)
        if answers is None:
            raise RowError(f"{name} is missing")
        if not isinstance(answers, list) or len(answers) != 1:
            raise RowError(f"{name} must be a list of one message")
        answer = check_object(answers[0], f"{name}[0]")
        if answer.get("role") != "assistant":
            raise RowError(f"{name}[0].role is {shown(answer.get('role'))}, not 'assistant'")
        whole = {**given, "messages": [*unlearned, untrained(answer)]}
        return whole, f"{name}[0]"

    return side("preferred_output"), side("non_preferred_output")


def _alpaca_sides(row: Row) -> tuple[tuple[Row, str], tuple[Row, str]]:
    return tuple(  # type: ignore[return-value]  # _CHOSEN has two names
        ({**row, "output": check_text(row.get(name), name)}, name) for name in _CHOSEN
    )


def _sharegpt_sides(row: Row) -> tuple[tuple[Row, str], tuple[Row, str]]:
    turns = row.get("conversations")
    if not isinstance(turns, list) or not turns:
        raise RowError("conversations must be a list of at least one turn")

    def side(name: str) -> tuple[Row, str]:
        answer = untrained(check_object(row.get(name), name))
        return {**row, "conversations": [*map(untrained, turns), answer]}, name

    return side("chosen"), side("rejected")


def _read_feedback(row: Row, data_format: DataFormat) -> TrainingRow:
    for column in ("messages", "conversations"):
        if isinstance(row.get(column), list):
            row = {**row, column: [untrained(message) for message in row[column]]}
    example = read_demonstration(data_format, row)
    _check_answer(example, "the last turn")
    given = [name for name in LABEL_COLUMNS if row.get(name) is not None]
    if len(given) != 1:
        problem = "are both given" if given else "are both missing"
        raise RowError(f"{' and '.join(LABEL_COLUMNS)} {problem}; one must be true or false")
    label = row[given[0]]
    if not isinstance(label, bool):
        raise RowError(f"{given[0]} is {shown(label)}, not true or false")
    return TrainingRow((Demonstration(row, example),), label)


def _read_text(row: Row, _: DataFormat) -> TrainingRow:
    text = check_text(row.get("text"), "text")
    if not text.strip():
        raise RowError("text is empty")
    return TrainingRow((Demonstration(row, Example([("text", text)], answers=0)),))


_CHOSEN = ("chosen", "rejected")

_READERS: dict[RowKind, Callable[[Row, DataFormat], TrainingRow]] = {
    RowKind.DEMONSTRATION: _read_demonstration,
    RowKind.PREFERENCE: _read_preference,
    RowKind.FEEDBACK: _read_feedback,
    RowKind.TEXT: _read_text,
}

_SIDES: dict[DataFormat, Callable[[Row], tuple[tuple[Row, str], tuple[Row, str]]]] = {
    DataFormat.CHAT: _chat_sides,
    DataFormat.ALPACA: _alpaca_sides,
    DataFormat.SHAREGPT: _sharegpt_sides,
}

_ANSWER_COLUMNS: dict[RowKind, frozenset[str]] = {
    RowKind.DEMONSTRATION: frozenset(),
    RowKind.PREFERENCE: frozenset({"input", "preferred_output", "non_preferred_output", *_CHOSEN}),
    RowKind.FEEDBACK: frozenset(LABEL_COLUMNS),
    RowKind.TEXT: frozenset(),
}
