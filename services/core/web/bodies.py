"""Request bodies: limits on them, and JSON that is parsed by hand.

Limited are their size, their number of JSON values, and pauses while they arrive. Parsed by hand
are those of hot routes and of routes with a published contract of their own: such a route responds
422 to an invalid field, accepts unknown fields, and accepts text with lone surrogates, which
language models produce: each becomes U+FFFD. FastAPI does none of that and takes twice the time.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.models import Example
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import (
    InvalidRequest,
    PayloadTooLarge,
    Unprocessable,
    UnsupportedEncoding,
)
from services.core.web.large_json import TooManyValues, parse_large
from services.core.web.middleware import header
from services.core.web.validation import describe_problems

MAX_BODY_BYTES = 4 << 20
MAX_VALUES = 20_000
"""Of a body with the default limit: each invalid value costs 20 us and more to report."""

COUNTED_BYTES = 64 << 10
"""Smaller bodies cannot have too many values to matter."""

STALL_SECONDS = 60.0


class BodyLimits:
    """ASGI middleware that aborts the reading of bodies that are too large or stall.

    ``larger`` maps paths to limits in bytes above the default; ``*`` in a path matches any text.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        larger: Mapping[str, int],
        max_bytes: int = MAX_BODY_BYTES,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._app = app
        self._bounds = BodyBounds(larger, max_bytes, stall_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a limited ``receive``, which raises the error."""
        if scope["type"] == "http":
            receive = self._bounds.limited(scope, receive)
        await self._app(scope, receive, send)


class BodyBounds:
    """The maximum body size by path, and the longest pause."""

    def __init__(
        self,
        larger: Mapping[str, int],
        max_bytes: int = MAX_BODY_BYTES,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._larger = larger
        self._max_bytes = max_bytes
        self._stall_seconds = stall_seconds

    def limited(self, scope: Scope, receive: Receive) -> Receive:
        """Wrap ``receive``: it raises `PayloadTooLarge`, `UnsupportedEncoding` and
        `InvalidRequest`."""
        limit = self._limit_of(scope["path"])
        pieces: list[bytes] | None = [] if limit == self._max_bytes else None
        declared, encoding = _declared_bytes(scope), header(scope, b"content-encoding")
        received, complete = 0, False

        async def receive_limited() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the disconnect, whenever it comes
                return await receive()
            if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
                raise UnsupportedEncoding(
                    f"the body has the Content-Encoding {encoding[:50]!r}: send it as it is"
                )
            if declared > limit:
                raise _too_large(limit)
            message = await self._next(receive)
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            complete = not message.get("more_body", False)
            if pieces is not None:  # a route with a larger limit reads its body by its own rules
                pieces.append(message.get("body", b""))
                if complete and received > COUNTED_BYTES and has_more_values(pieces, MAX_VALUES):
                    reason = f"the body has more than {MAX_VALUES} values"
                    raise InvalidRequest(reason, code="too_many_values")
            return message

        return receive_limited

    def _limit_of(self, path: str) -> int:
        if path in self._larger:
            return self._larger[path]
        patterns = (limit for pattern, limit in self._larger.items() if fnmatchcase(path, pattern))
        return next(patterns, self._max_bytes)

    async def _next(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self._stall_seconds):
                return await receive()
        except TimeoutError:
            message = f"no data of the body arrived within {self._stall_seconds:.0f} s"
            raise InvalidRequest(message, code="body_timeout") from None


def has_more_values(pieces: Sequence[bytes], most: int) -> bool:
    """Whether a JSON text, in pieces, has more values than ``most``; counted without parsing."""
    plain = b"".join(pieces).replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') <= 2 * most:
        outside_of_strings = b"".join(plain.split(b'"')[::2])
        return sum(map(outside_of_strings.count, (b",", b"[", b"{"))) > most
    return True


def _declared_bytes(scope: Scope) -> int:
    length = header(scope, b"content-length") or ""
    return int(length) if length.isdecimal() else 0


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request is larger than {limit} bytes")


MAX_PARSED_VALUES = 200_000
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
        value = parse_large(body, MAX_PARSED_VALUES)
    except TooManyValues:
        raise Unprocessable(f"the body has more than {MAX_PARSED_VALUES} values") from None
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
