"""Fields of requests as every dialect reads them: typed, or refused by name."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import RowError, StrictDecoder, shown


def objects(value: Any, where: str) -> Iterator[tuple[str, JsonObject]]:
    """The objects of a list with their places; null is an empty list."""
    if value is None:
        return
    if not isinstance(value, list):
        raise wrong(where, value, "a list")
    for number, each in enumerate(value):
        place = f"{where}[{number}]"
        if not isinstance(each, dict):
            raise wrong(place, each, "an object")
        yield place, each


def text_field(value: JsonObject, name: str, where: str) -> str:
    """A field that is a string."""
    found = value.get(name)
    if not isinstance(found, str):
        raise wrong(f"{where}.{name}" if where else name, found, "a string")
    return found


def count_field(value: JsonObject, name: str) -> int | None:
    """A field that is a positive integer, or null."""
    found = value.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise wrong(name, found, "a positive integer")
    return found


def joined_text(content: Any, where: str, kinds: tuple[str, ...]) -> str:
    """The text of a content: a string, or parts of which each has one of the types ``kinds``."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for place, part in objects(content, where):
        if part.get("type") not in kinds:
            raise InvalidRequest(
                f"has a part of type {shown(part.get('type'))}; this model reads text", param=place
            )
        parts.append(text_field(part, "text", place))
    return "".join(parts)


def arguments_object(text: Any, where: str) -> JsonObject:
    """The arguments of a call, which are an object or its JSON."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str):
        raise wrong(where, text, "an object or its JSON")
    try:
        value = StrictDecoder().decode(text.strip() or "{}")
    except RowError as error:
        raise InvalidRequest(error.message, param=where) from None
    if not isinstance(value, dict):
        raise wrong(where, value, "a JSON object")
    return value


def function_call(identity: Any, name: str, arguments: JsonObject) -> JsonObject:
    """A call in the shape of chat completions."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": str(identity or ""), "type": "function", "function": function}


def function_tool(name: str, description: Any, parameters: Any, strict: Any = None) -> JsonObject:
    """A tool in the shape of chat completions; ``strict`` is kept where it is true."""
    described = {"description": description} if isinstance(description, str) else {}
    schema = parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}}
    function = {"name": name, **described, "parameters": schema}
    return {"type": "function", "function": function | ({"strict": True} if strict is True else {})}


def ignored(body: JsonObject, neutral: Mapping[str, tuple[Any, ...]]) -> tuple[str, ...]:
    """The fields of a request that would change how is sampled; ``neutral`` has the values with
    which each means nothing."""
    return tuple(
        name
        for name, values in neutral.items()
        if body.get(name) is not None and body[name] not in values
    )


def wrong(where: str, value: Any, expected: str) -> InvalidRequest:
    """The error of a field with another type."""
    return InvalidRequest(f"is {shown(value)}, not {expected}", param=where)
