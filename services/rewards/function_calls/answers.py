"""Parses the calls in an answer, given as JSON or in Python syntax."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.metrics.extraction import ExtractionOutcome, extract_all, strip_reasoning

MAX_CHARACTERS = 20_000
"""Maximum length of an answer that is parsed as Python, whose parser has problems with deep
nesting."""


@dataclass(frozen=True)
class Call:
    """A function and its arguments by name."""

    function: str
    arguments: Mapping[str, Any]


def calls_of(text: str) -> list[Call] | None:
    """The calls, in the order of the answer; None where it does not state any list of calls.

    Understood are ``[name(key=value), ...]``, also without brackets, as the whole answer, and the
    JSON of the answer: lists of ``{"name": ..., "arguments": {...}}`` or of ``{name: {...}}``, or
    such objects, all that `extract_all` finds.
    """
    written = strip_reasoning(text).strip().removeprefix("```python").strip("`\n ")
    found = _python(written)
    if found is not None:
        return found
    extracted = extract_all(
        text,
        lambda value: _json_calls(value) is not None,
        is_whole=lambda value: isinstance(value, list),
    )
    if extracted.outcome is not ExtractionOutcome.PARSED:
        return None
    return [call for value in extracted.value for call in _json_calls(value) or ()]


def _json_calls(value: Any) -> list[Call] | None:
    stated = value if isinstance(value, list) else [value]
    calls = [_json_call(each) for each in stated]
    return None if None in calls else [each for each in calls if each is not None]


def _json_call(value: Any) -> Call | None:
    if not isinstance(value, dict):
        return None
    name, arguments = value.get("name"), value.get("arguments")
    if name is None and len(value) == 1:
        ((name, arguments),) = value.items()
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return Call(name, arguments)


def _python(text: str) -> list[Call] | None:
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        body = ast.parse(text, mode="eval").body
        nodes = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
        return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _python_call(node: ast.expr) -> Call:
    """Raises ValueError and TypeError unless the node is a call with named JSON values."""
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("arguments without a name")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    return Call(_dotted(node.func), json.loads(text))


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ValueError("not the name of a function")
