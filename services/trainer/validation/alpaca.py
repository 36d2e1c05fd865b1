"""Rows in the alpaca layout: ``instruction``, ``input``, ``output``, ``system``, ``history``."""

from collections.abc import Iterator
from typing import Any

from services.datasets.messages import check_text
from services.datasets.record import RowError, shown
from services.trainer.validation.example import Example


def read_alpaca(row: dict[str, Any]) -> Example:
    """Check a row and return what it holds; raises RowError that names the path at fault."""
    instruction = check_text(row.get("instruction"), "instruction")
    extra = _optional_text(row, "input")
    question = "\n".join(text for text in (instruction, extra) if text)
    if not question:
        raise RowError("instruction and input are both empty")
    turns = []
    if system := _optional_text(row, "system"):
        turns.append(("system", system))
    turns.extend(_history(row))
    turns.append(("user", question))
    turns.append(("assistant", check_text(row.get("output"), "output")))
    return Example(turns, answers=len(turns) // 2)


def _optional_text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return "" if value is None else check_text(value, key)


def _history(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    history = row.get("history")
    if history is None:
        return
    if not isinstance(history, list):
        raise RowError(f"history is {shown(history)}, not a list of pairs")
    for position, pair in enumerate(history):
        place = f"history[{position}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise RowError(f"{place} is {shown(pair)}, not a pair of question and answer")
        yield "user", check_text(pair[0], f"{place}[0]")
        yield "assistant", check_text(pair[1], f"{place}[1]")
