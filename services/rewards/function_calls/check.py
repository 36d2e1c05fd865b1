"""Whether calls are those that a row allows: the AST check of the Berkeley Function Calling
Leaderboard (S. G. Patil et al., "Gorilla", 2023, arXiv 2305.15334, and its leaderboard's code).

Names of functions are equal. A required parameter is there, one that the schema or the allowed
values lack is not, and one with
values is left out only where that is among them. A value has the type of its schema, or that of the
first allowed value (a variable); an integer passes for a float. So has each item of a list, except
that an integer is not a float there. Texts are equal without case, spaces and the characters
``,./-_*^``. Calls match in any order, each expected one the first that fits.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from services.contracts.base import JsonObject
from services.rewards.function_calls.answers import Call
from services.rewards.function_calls.rows import OMITTED, AllowedCall, Question

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "list": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
}
MOST_EXACT = 2**53
"""Up to this, every integer is a float."""
_IGNORED = re.compile(r"[ ,./\-_*^]")


def are_allowed(calls: Sequence[Call], question: Question) -> bool:
    """Whether the calls match the expected ones one to one, in any order."""
    if len(calls) != len(question.calls):
        return False
    left = list(calls)
    for expected in question.calls:
        schema = question.functions[expected.function]
        fits = (place for place, each in enumerate(left) if _is_allowed(each, expected, schema))
        place = next(fits, None)
        if place is None:
            return False
        del left[place]  # not the first that equals it: 1 equals true
    return True


def normal_form(calls: Sequence[Call], question: Question) -> str:
    """A text that calls share which are equal for every row: without order, case and marks."""
    forms = []
    for call in calls:
        schema = question.functions.get(call.function) or {}
        known = schema.get("properties") or {}
        arguments = {
            name: _normal(value, _type_of(known.get(name)))
            for name, value in call.arguments.items()
        }
        forms.append(json.dumps([call.function, arguments], ensure_ascii=False, sort_keys=True))
    return json.dumps(sorted(forms), ensure_ascii=False)


def _normal(value: Any, wanted: type | None = None) -> Any:
    match value:
        case str():
            return _standard(value)
        case list():
            return list(map(_normal, value))
        case dict():
            return {name: _normal(each) for name, each in value.items()}
        case int() if wanted is float and type(value) is int and abs(value) <= MOST_EXACT:
            return float(value)
    return value


def _is_allowed(call: Call, expected: AllowedCall, schema: JsonObject) -> bool:
    if call.function != expected.function:
        return False
    if any(name not in call.arguments for name in schema.get("required") or ()):
        return False
    for name, allowed in expected.values.items():
        if name not in call.arguments and OMITTED not in allowed:
            return False
    return all(
        name in expected.values
        and name in schema["properties"]
        and _has_type(value, expected.values[name], schema["properties"][name])
        and any(_equal(value, each) for each in expected.values[name])
        for name, value in call.arguments.items()
    )


def _has_type(value: Any, allowed: Sequence[Any], schema: Any) -> bool:
    wanted = _type_of(schema)
    if wanted is None:
        return True
    if wanted is list and isinstance(value, list):
        return _have_type(value, allowed, _type_of(schema.get("items")))
    return type(value) in (wanted, _variable(allowed, wanted)) or (
        wanted is float and type(value) is int
    )


def _have_type(items: Sequence[Any], allowed: Sequence[Any], wanted: type | None) -> bool:
    """Whether the items of a list have their type, beside one of the allowed lists. As published,
    those of a list that may be left out have any, and items of items are not looked at."""
    return wanted is None or any(
        not isinstance(each, list)
        or all(type(item) in (wanted, _variable(each, wanted)) for item in items)
        for each in allowed
    )


def _type_of(schema: Any) -> type | None:
    """The type of a schema; None for "any", or a type that is not known."""
    return _TYPES.get(str(schema.get("type"))) if isinstance(schema, dict) else None


def _variable(allowed: Sequence[Any], wanted: type) -> type:
    return next((type(each) for each in allowed if each != OMITTED), wanted)


def _equal(value: Any, allowed: Any) -> bool:
    """Whether a value is allowed; each field of an allowed object has its own list of values."""
    if isinstance(value, str) and isinstance(allowed, str):
        return _standard(value) == _standard(allowed)
    if isinstance(value, dict) and isinstance(allowed, dict):
        return _equal_fields(value, allowed)
    if isinstance(value, list) and isinstance(allowed, list):
        return len(value) == len(allowed) and all(map(_equal, value, allowed))
    if isinstance(value, bool) is not isinstance(allowed, bool):
        return False
    return bool(value == allowed)


def _equal_fields(value: Mapping[str, Any], allowed: Mapping[str, Any]) -> bool:
    for name, options in allowed.items():
        choices = options if isinstance(options, list) else [options]
        if name not in value:
            if OMITTED not in choices:
                return False
        elif not any(_equal(value[name], each) for each in choices):
            return False
    return all(name in allowed for name in value)


def _standard(text: str) -> str:
    return _IGNORED.sub("", text).casefold().replace("'", '"')
