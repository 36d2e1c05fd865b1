"""Questions and reference answers in rows: our own keys, and those of published datasets.

Supports rows of verl and MindSpeed-RL (``prompt`` as a list of messages, ``reward_model`` with a
``ground_truth``), Search-R1 (the same beside ``question`` and ``golden_answers``), GSM8K (an
``answer`` that ends with ``#### 72``) and MATH-500 (``problem``). The reference answer may also be
under ``solution``, ``ground_truth``, ``reference_answer``, ``label`` or ``reward_spec``.
"""

import re
from typing import Any

from services.contracts.base import JsonObject
from services.datasets.messages import check_messages
from services.datasets.record import JsonValue, RowError, shown

QUESTION_KEYS = ("prompt", "question", "problem")
GOLD_KEYS = ("gold", "answer", "golden_answers")
LATER_GOLD_KEYS = ("ground_truth", "reference_answer", "solution", "label")
"""Looked at where none of the other keys is there, in this order."""
_FINAL_ANSWER = re.compile(r"(?:^|\n)####[ \t]*(\S[^\n]*?)\s*\Z")
_GROUPED_NUMBER = re.compile(r"-?\$?\d{1,3}(,\d{3})+(\.\d+)?")


def question_of(row: JsonObject) -> tuple[str, str | list[JsonObject]]:
    """The key of the question in a row and its value: a text, or checked messages to answer.

    Raises RowError that names the path at fault.
    """
    if isinstance(row.get("prompt"), list) and row.get("messages") is None:
        return "prompt", _messages(row["prompt"], "prompt")
    given = [key for key in ("messages", *QUESTION_KEYS) if row.get(key) is not None]
    if not given:
        raise RowError("messages is missing (or prompt, question or problem, in its place)")
    if len(given) > 1:
        raise RowError(f"has both {given[0]} and {given[1]}; give one of them")
    key, value = given[0], row[given[0]]
    if key == "messages":
        return key, _messages(value, key)
    if not isinstance(value, str):
        raise RowError(f"{key} is {shown(value)}, not a string")
    if not value.strip():
        raise RowError(f"{key} is empty")
    return key, value


def gold_of(row: JsonObject) -> tuple[str, tuple[str, ...]]:
    """The key of the reference answers in a row and their texts; ("", ()) without any.

    Numbers are in JSON notation; of a worked solution that ends with ``#### 72`` the gold is 72.
    Raises RowError that names the path at fault.
    """
    path, value = _reference(row)
    values = value if isinstance(value, list) else [] if value is None else [value]
    paths = [f"{path}[{n}]" for n in range(len(values))] if isinstance(value, list) else [path]
    return path, tuple(map(_final, map(_text, values, paths)))


def worked_answer(row: JsonObject) -> str | None:
    """The first reference answer with its worked solution, if it has one."""
    path, value = _reference(row)
    first = value[0] if isinstance(value, list) and value else value
    return None if first is None or first == [] else _text(first, path)


def _messages(value: JsonValue, key: str) -> list[JsonObject]:
    try:
        checked = check_messages(value)
    except RowError as error:
        raise RowError(error.message.replace("messages", key, 1)) from None
    if checked[-1]["role"] == "assistant":
        place = f"{key}[{len(checked) - 1}]"
        raise RowError(f"{place}.role is 'assistant'; the last message is one for it to answer")
    return checked


def _reference(row: JsonObject) -> tuple[str, JsonValue]:
    """The path of the reference answers and their value; ("", None) without any."""
    for key in GOLD_KEYS:
        if row.get(key) is not None:
            return key, row[key]
    for column in ("reward_model", "reward_spec"):
        path, value = column, row.get(column)
        for key in ("ground_truth", "target"):
            inner: Any = value.get(key) if isinstance(value, dict) else None
            if inner is not None:
                path, value = f"{path}.{key}", inner
        if path != column and not isinstance(value, dict):
            return path, value
    for key in LATER_GOLD_KEYS:
        value = row.get(key)
        parts = value if isinstance(value, list) else [value]
        # A boolean label judges an answer, and names none; objects are for a grader of its own.
        if value is not None and not any(isinstance(part, bool | dict) for part in parts):
            return key, value
    return "", None


def _text(value: JsonValue, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(f"{path} is {shown(value)}, not a string or a number")
    text = value if isinstance(value, str) else repr(value)
    if "\0" in text:
        raise RowError(f"{path} holds the character U+0000, which cannot be stored")
    return text


def _final(text: str) -> str:
    match = _FINAL_ANSWER.search(text) if "####" in text else None
    if match is None:
        return text
    answer = match[1]
    return answer.replace(",", "") if _GROUPED_NUMBER.fullmatch(answer) else answer
