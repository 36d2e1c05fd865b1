"""Prompts of rollouts from rows: a conversation to continue, and the reference answers.

A row has ``messages``, ``prompt`` or ``question``; ``gold`` or ``answer`` hold the reference
answers, if any; ``prompt_type`` may override the job's. All other keys are kept as ``extra``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import PromptType
from services.datasets.messages import text_of
from services.datasets.questions import gold_of, question_of
from services.datasets.reader import open_records
from services.datasets.record import (
    JsonValue,
    Problem,
    RowError,
    UnreadableFile,
    shown,
    without_padding,
)

_INSTRUCTIONS: dict[PromptType, str | None] = {
    "plain": None,
    "qwen_retool": (
        "Solve the problem step by step. Where calculating or checking helps, write Python code, "
        "run it with the tool and go on from what it prints. Put the final answer, and nothing "
        "else, in \\boxed{}."
    ),
    "qwen_search_tool": (
        "Answer the question. Search with the tool for what you do not know, as often as you need "
        "to, and reason from what it finds. Put the final answer, without an explanation, in "
        "\\boxed{}."
    ),
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """The start of one or more rollouts.

    ``index`` counts rows from 0. ``messages`` are ready for a chat template: contents are strings
    and null keys are removed. ``gold`` is empty without a reference answer; numbers are in JSON
    notation.
    """

    index: int
    messages: tuple[JsonObject, ...]
    gold: tuple[str, ...]
    extra: JsonObject


def prompt_of_row(
    row: JsonValue,
    index: int,
    prompt_type: PromptType = "plain",
    system_prompt: str | None = None,
) -> Prompt:
    """The prompt in a row.

    A question becomes a user message after a system message made of ``system_prompt`` and the
    instruction of its prompt type. ``messages`` are kept; ``system_prompt`` is added only if they
    have no system message. A RowError names the path at fault.
    """
    if not isinstance(row, dict):
        raise RowError(f"is {shown(row)}, not an object with messages, prompt or question")
    row = without_padding(row)
    key, question = question_of(row)
    gold_key, gold = gold_of(row)
    own = {"messages", "prompt_type", key, gold_key or "answer"}
    extra = {name: value for name, value in row.items() if name not in own}
    if isinstance(question, str):
        kind = _prompt_type(row.get("prompt_type"), prompt_type)
        return Prompt(index, _question_messages(question, kind, system_prompt), gold, extra)
    if row.get("prompt_type") is not None:
        raise RowError(f"prompt_type is for rows with a question; {key} is a list of messages")
    begins = question[0]["role"] in {"system", "developer"}
    messages = (*_system(None if begins else system_prompt), *map(plain_message, question))
    return Prompt(index, messages, gold, extra)


def read_prompts(
    path: Path, prompt_type: PromptType = "plain", system_prompt: str | None = None
) -> Iterator[Prompt]:
    """The prompts of a file (JSONL, JSON or Parquet), lazily.

    Raises UnreadableFile naming row and path at the first row that is not a prompt.
    """
    for index, record in enumerate(open_records(path)):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            yield prompt_of_row(record.value, index, prompt_type, system_prompt)
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None


def inline_prompts(
    rows: Iterable[JsonValue],
    prompt_type: PromptType = "plain",
    system_prompt: str | None = None,
) -> Sequence[Prompt]:
    """The prompts in the request field ``prompts``.

    Raises InvalidRequest naming the row, as in ``prompts[2]``, and the path at fault.
    """
    prompts = []
    for index, row in enumerate(rows):
        try:
            prompts.append(prompt_of_row(row, index, prompt_type, system_prompt))
        except RowError as error:
            place = f"prompts[{index}]"
            raise InvalidRequest(f"{place}: {error.message}", param=place) from None
    return prompts


def _question_messages(
    question: str, prompt_type: PromptType, system_prompt: str | None
) -> tuple[JsonObject, ...]:
    parts = (system_prompt, _INSTRUCTIONS[prompt_type])
    system = "\n\n".join(part for part in parts if part)
    return (*_system(system), {"role": "user", "content": question})


def plain_message(message: JsonObject) -> JsonObject:
    """A checked message without null keys, with its text parts joined."""
    kept = {key: value for key, value in message.items() if value is not None}
    return {**kept, "content": text_of(message)} if "content" in kept else kept


def _system(content: str | None) -> tuple[JsonObject, ...]:
    return ({"role": "system", "content": content},) if content else ()


def _prompt_type(value: JsonValue, default: PromptType) -> PromptType:
    if value is None:
        return default
    for name in _INSTRUCTIONS:
        if name == value:
            return name
    known = ", ".join(get_args(PromptType))
    raise RowError(f"prompt_type is {shown(value)}; known are {known}")
