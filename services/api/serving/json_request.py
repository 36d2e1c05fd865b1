"""The JSON body of a request whose fields the gateway reads itself."""

import asyncio

from starlette.types import Receive

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.core.web.json_body import SMALL_BODY, whole_body
from services.parsing.foreign_json import parse_foreign


async def json_request(receive: Receive) -> JsonObject:
    """The object in a request's body; raises `InvalidRequest`."""
    body = await whole_body(receive)
    if len(body) > SMALL_BODY:  # parsing it would block the event loop
        return await asyncio.to_thread(_parse, body)
    return _parse(body)


def _parse(body: bytes) -> JsonObject:
    try:
        value = parse_foreign(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    return value
