"""The format of Qwen3-Coder: <function=NAME><parameter=KEY>VALUE</parameter></function>.

Calls may be wrapped in <tool_call> tags. Values are bare text: the tool's schema says which are
numbers, booleans, lists or objects.
"""

import re
from collections.abc import Mapping, Sequence, Set

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue, RowError, StrictDecoder
from services.rollouts.parsers.base import MAX_NAME, CallCollector, ParsedCall, ParsedTurn

_BEGINNING = "<function="
_FUNCTION = re.compile(rf"<function=\s*([^<>\s]{{1,{MAX_NAME}}})\s*>")
_PARAMETER = re.compile(rf"\s*<parameter=\s*([^<>\s]{{1,{MAX_NAME}}})\s*>")
_PARAMETER_END = "</parameter>"
_NEXT_PARAMETER = re.compile(rf"\n[ \t]*<parameter=\s*([^<>\s]{{1,{MAX_NAME}}})\s*>")
_FUNCTION_END = re.compile(r"\s*</function>")

_TYPE_NAMES: tuple[tuple[type, set[str]], ...] = (
    (bool, {"boolean"}),  # before numbers: bool is a subclass of int
    (int, {"integer", "number"}),
    (float, {"number"}),
    (str, {"string"}),
    (list, {"array"}),
    (dict, {"object"}),
)


class Qwen3CoderParser:
    """One call per pair of function tags."""

    def parse(self, text: str, tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        place = 0
        while (start := text.find(_BEGINNING, place)) >= 0 and not findings.is_full(start):
            try:
                found, place = _read(text, start, tools)
            except _Malformed as fault:
                following = text.find(_BEGINNING, max(fault.place, start + 1))
                place = following if following >= 0 else len(text)
                findings.add(str(fault), start, place)
            else:
                findings.add(found, start, place)
        return findings.turn()


class _Malformed(Exception):
    """Why a call is malformed, and where."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.place = place


def _read(text: str, start: int, tools: Sequence[JsonObject]) -> tuple[ParsedCall, int]:
    """The call at ``start`` and its end."""
    opening = _FUNCTION.match(text, start)
    if opening is None:
        raise _Malformed("has no function name", start)
    name, place = opening.group(1), opening.end()
    properties = _properties(tools, name)
    arguments: JsonObject = {}
    while parameter := _PARAMETER.match(text, place):
        key, begin = parameter.group(1), parameter.end()
        end, place = _parameter_end(text, begin, properties.keys() - arguments.keys() - {key})
        if end < 0:
            raise _Malformed(f"parameter {key[:80]!r} is not closed", begin)
        arguments[key] = _value(text[begin:end], properties.get(key))
    closing = _FUNCTION_END.match(text, place)
    if closing is None:
        raise _Malformed("has neither a parameter nor </function> where one is expected", place)
    return ParsedCall(name, arguments), closing.end()


def _parameter_end(text: str, begin: int, missing: Set[str]) -> tuple[int, int]:
    """Where a value ends and where to continue; -1 if it has no end.

    Models leave out closing tags. A value then ends where a declared parameter that is still
    ``missing`` begins, or with the call, if the closing tag found belongs to a later call.
    """
    close = text.find(_PARAMETER_END, begin)
    limit = close if close >= 0 else len(text)
    nested = text.find(_BEGINNING, begin, limit)
    for following in _NEXT_PARAMETER.finditer(text, begin, limit if nested < 0 else nested):
        if following.group(1) in missing:
            return following.start(), following.start()
    end = text.find("</function>", begin, limit if nested < 0 else nested)
    if end >= 0 and (close < 0 or nested > end):
        return end, end
    return close, close + len(_PARAMETER_END)


def _properties(tools: Sequence[JsonObject], name: str) -> Mapping[str, JsonValue]:
    """The schemas of a tool's arguments; empty for an unknown tool."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, dict) else None
            return properties if isinstance(properties, dict) else {}
    return {}


def _value(written: str, schema: JsonValue) -> JsonValue:
    """A value with the type of its schema: text, unless the schema names another type that fits."""
    text = written.removeprefix("\n").removesuffix("\n")
    types = _types(schema)
    if not types - {"string"}:
        return text
    stripped = text.strip()
    if "boolean" in types and stripped.lower() in {"true", "false"}:
        return stripped.lower() == "true"
    try:
        value = StrictDecoder().decode(stripped)
    except RowError:
        return text
    return value if _type_of(value) & types else text


def _types(schema: JsonValue) -> set[str]:
    """The types that a schema names, directly or in anyOf and oneOf."""
    if not isinstance(schema, dict):
        return set()
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set(named if isinstance(named, list) else ())
    for key in ("anyOf", "oneOf"):
        alternatives = schema.get(key)
        for alternative in alternatives if isinstance(alternatives, list) else ():
            inner = alternative.get("type") if isinstance(alternative, dict) else None
            types |= {inner} if isinstance(inner, str) else set()
    return types


def _type_of(value: JsonValue) -> set[str]:
    """The JSON Schema names of a value's type."""
    if value is None:
        return {"null"}
    return next(names for kind, names in _TYPE_NAMES if isinstance(value, kind))
