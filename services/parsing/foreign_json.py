"""JSON from servers that are not ours, made safe to keep.

A foreign body may hold half a surrogate pair, NaN, or lists nested hundreds deep. Some parsers
accept each of these, and an encoder or another parser fails on it later. So everything foreign is
read here, and everything that is appended to a log is written here.
"""

import json
import math
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from services.contracts.validation import first_fault

MAX_DEPTH = 100
"""Maximum nesting of objects and lists; pydantic's own limits are about twice that."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LINE_ENDS = (("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\u0085", r"\u0085"))
"""Characters inside strings at which ``str.splitlines`` would cut a line of JSON."""

Model = TypeVar("Model", bound=BaseModel)


def parse_foreign(body: bytes | str) -> Any:
    """Parse JSON; raises `ValueError` if it is none, or nested deeper than ``MAX_DEPTH``.

    Invalid UTF-8 and lone surrogates become U+FFFD; NaN and infinities become None.
    """
    text = body.decode("utf-8-sig", errors="replace") if isinstance(body, bytes) else body
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    nests = text.count("[") + text.count("{") > MAX_DEPTH
    return storable_json(value) if nests or _SURROGATE.search(text) else value


def read_foreign(kind: type[Model], body: bytes) -> Model:
    """Parse a body as a model; raises `ValueError` that names the first field at fault."""
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        value = parse_foreign(body)  # pydantic's parser refuses a lone surrogate in any field
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = first_fault(error)
        where = fault.field or "body"
        raise ValueError(f"{storable_text(where)}: {fault.message}") from None


def storable_text(text: str) -> str:
    """The text with surrogate pairs combined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A JSON value with its texts made `storable_text` and non-finite numbers None.

    Raises `ValueError` where it is nested deeper than ``depth``.
    """
    match value:
        case str():
            return storable_text(value)
        case float():
            return value if math.isfinite(value) else None
        case dict() | list() if depth == 0:
            raise ValueError(_TOO_DEEP)
        case dict():
            return {
                storable_text(name) if isinstance(name, str) else name: storable_json(
                    item, depth - 1
                )
                for name, item in value.items()
            }
        case list() | tuple():
            return [storable_json(item, depth - 1) for item in value]
        case _:
            return value


def json_line(record: BaseModel) -> bytes:
    """A record as one line of JSON that any reader of lines takes as one, with its newline.

    Lone surrogates in it become U+FFFD. Raises `ValueError` where it is nested too deeply.
    """
    try:
        line = record.model_dump_json()
    except PydanticSerializationError:
        line = to_json(storable_json(record.model_dump())).decode()
    return escape_line_ends(line).encode() + b"\n"


def escape_line_ends(text: str) -> str:
    """JSON text without raw characters that end a line for ``str.splitlines``."""
    for character, escape in _LINE_ENDS:
        text = text.replace(character, escape)
    return text


_TOO_DEEP = f"nested more than {MAX_DEPTH} deep"


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
