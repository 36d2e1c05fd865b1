"""JSON bodies parsed by hand, for hot routes and for routes with a published contract of their own.

Such a route responds 422 to an invalid field, accepts unknown fields, and accepts text with lone
surrogates, which language models produce: each becomes U+FFFD. FastAPI does none of that and takes
twice the time.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.models import Example
from pydantic import BaseModel, ValidationError
from starlette.types import Receive

from services.contracts.errors import InvalidRequest, Unprocessable
from services.core.web.large_json import TooManyValues, parse_large
from services.core.web.validation import describe_problems

MAX_VALUES = 200_000
SMALL_BODY = 1 << 20

Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, model: type[Body]) -> Body:
    """Read and parse the body of a request; raises `InvalidRequest`."""
    body = await whole_body(request.receive)
    if len(body) > SMALL_BODY:  # parsing it would stop the event loop
        return await asyncio.to_thread(parse_body, body, model)
    return parse_body(body, model)


async def whole_body(receive: Receive) -> bytes:
    """The complete body, which usually arrives in one message; raises `InvalidRequest`."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidRequest("the client disconnected before the request was complete")
        piece: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return b"".join((*pieces, piece)) if pieces else piece
        pieces.append(piece)


def parse_body(body: bytes, model: type[Body]) -> Body:
    """Parse and validate a JSON body; raises `Unprocessable`."""
    if len(body) > SMALL_BODY:
        return _parse_large_body(body, model)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise _unprocessable(error, _value(body)) from None
    try:
        return model.model_validate_json(_repaired(body))
    except ValidationError as error:
        raise _unprocessable(error, _value(body)) from None


def _parse_large_body(body: bytes, model: type[Body]) -> Body:
    try:
        value = parse_large(body, MAX_VALUES)
    except TooManyValues:
        raise Unprocessable(f"the body has more than {MAX_VALUES} values") from None
    except (ValueError, RecursionError):
        raise Unprocessable("the body is not JSON") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _unprocessable(error, value) from None


def _repaired(body: bytes) -> str | bytes:
    """The same JSON with lone surrogates replaced; unchanged if it is not JSON."""
    try:
        text = json.dumps(json.loads(body), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _value(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _unprocessable(error: ValidationError, value: Any) -> Unprocessable:
    found = [
        {**problem, "loc": ("body", *problem["loc"])} for problem in error.errors(include_url=False)
    ]
    told = describe_problems(RequestValidationError(found, body=value))
    return Unprocessable(told.message, param=told.param, details=told.details)


def documented_body(model: type[BaseModel], examples: Mapping[str, Example]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that parses its body by hand."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"schema": _inlined(schema, definitions), "examples": dict(examples)}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with its references replaced by what they refer to."""
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inlined = {key: _inlined(value, definitions) for key, value in schema.items() if key != "$ref"}
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        inlined = {**_inlined(definitions[name], definitions), **inlined}
    return inlined
