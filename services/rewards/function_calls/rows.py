"""Rows of the Berkeley Function Calling Leaderboard (gorilla-llm): functions and allowed calls."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import FunctionCallsGrader

FUNCTIONS, ALLOWED = "function", "ground_truth"
OMITTED = ""
"""Marks a parameter as optional, among its allowed values."""

_CATEGORY = re.compile(r"([A-Za-z_]{1,100}?)_\d")


@dataclass(frozen=True)
class AllowedCall:
    """An expected call, with the allowed values of each parameter."""

    function: str
    values: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Question:
    """The parameter schemas of each function, and the expected calls, possibly none.

    ``category`` is that of the row's id, such as ``parallel_multiple`` of ``parallel_multiple_7``.
    """

    functions: Mapping[str, JsonObject]
    calls: Sequence[AllowedCall]
    category: str | None


def read_question(row: JsonObject, settings: FunctionCallsGrader) -> Question:
    """Parse the question of a row; raises `InvalidRequest` with the field at fault as its
    ``param``."""
    functions = dict(_function(each, at) for at, each in enumerate(_list(row, FUNCTIONS)))
    calls: list[AllowedCall] = []
    if settings.expects == "calls":
        calls = [_call(each, at, functions) for at, each in enumerate(_list(row, ALLOWED))]
    elif row.get(ALLOWED):
        raise InvalidRequest("allows calls, although none are expected", param=ALLOWED)
    match = _CATEGORY.match(str(row.get("id", "")))
    return Question(functions, calls, match[1] if match else None)


def _list(row: JsonObject, field: str) -> list[Any]:
    value = row.get(field)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidRequest("is not JSON", param=field) from None
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise InvalidRequest("is missing, or not a list of objects", param=field)
    return value


def _function(value: Any, at: int) -> tuple[str, JsonObject]:
    param = f"{FUNCTIONS}[{at}]"
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InvalidRequest("is not an object with a name", param=param)
    schema = value.get("parameters")
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        message = "is not a schema of an object, with properties"
        raise InvalidRequest(message, param=f"{param}.parameters")
    return value["name"], schema


def _call(value: Any, at: int, functions: Mapping[str, JsonObject]) -> AllowedCall:
    param = f"{ALLOWED}[{at}]"
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidRequest("is not an object of one function", param=param)
    ((name, values),) = value.items()
    if name not in functions:
        message = f"{name!r} is none of {', '.join(functions)}"
        raise InvalidRequest(message, param=param)
    if not isinstance(values, dict) or not all(isinstance(each, list) for each in values.values()):
        message = "is not an object with a list of allowed values for each parameter"
        raise InvalidRequest(message, param=f"{param}.{name}")
    return AllowedCall(name, values)
