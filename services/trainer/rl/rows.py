"""The rows of a training's prompts: what to ask and, in distillation, what the data answer."""

from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.multi_turn import PromptType
from services.datasets.messages import check_messages
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, counted
from services.rollouts.prompts import Prompt, prompt_of_row

MAX_ROWS = 1_000_000
"""They are all held in memory, so that every pass can shuffle them."""


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt, and the messages behind it that demonstrate an answer; empty where none do."""

    prompt: Prompt
    answers: tuple[JsonObject, ...] = ()


def read_row(row: JsonValue, index: int, prompt_type: PromptType) -> PromptRow:
    """A row as it stands: ``messages`` may end with what the data answer, and where a row has a
    question instead, its first gold is the answer. Raises RowError."""
    if isinstance(row, dict) and isinstance(row.get("messages"), list):
        asked, answers = _split(check_messages(row["messages"]))
        return PromptRow(prompt_of_row({**row, "messages": asked}, index, prompt_type), answers)
    prompt = prompt_of_row(row, index, prompt_type)
    answers = ({"role": "assistant", "content": prompt.gold[0]},) if prompt.gold else ()
    return PromptRow(prompt, answers)


def read_rows(path: Path, prompt_type: PromptType) -> list[PromptRow]:
    """All rows of a file; raises UnreadableFile at the first that is no prompt."""
    rows: list[PromptRow] = []
    for record in open_records(path):
        if len(rows) == MAX_ROWS:
            raise UnreadableFile(f"has more than {counted(MAX_ROWS, 'row')}", row=record.row)
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            rows.append(read_row(record.value, len(rows), prompt_type))
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None
    if not rows:
        raise UnreadableFile("the file holds no rows")
    return rows


def _split(messages: list[JsonObject]) -> tuple[list[JsonObject], tuple[JsonObject, ...]]:
    """The messages up to the last that is not behind an answer, and those behind it.

    The answer begins behind the last message of a user, where an assistant's is the last of all.
    """
    if messages[-1]["role"] != "assistant":
        return messages, ()
    asked = max(
        (place for place, message in enumerate(messages) if message["role"] == "user"), default=-1
    )
    if asked < 0:
        raise RowError("messages have an answer of the assistant, but no user before it")
    return messages[: asked + 1], tuple(messages[asked + 1 :])
