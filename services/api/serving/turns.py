"""Turns of a served model for the dialects that the gateway translates to chat completions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import aiohttp

from services.api.serving.chat_stream import read_deltas
from services.api.serving.forward import Inference
from services.api.serving.metering import TokenUsage
from services.contracts.base import JsonObject
from services.contracts.errors import (
    BadGateway,
    Conflict,
    InvalidRequest,
    NotFound,
    TemperError,
    Unavailable,
)
from services.dialects.deltas import Delta, TurnUsage
from services.inference.relay_protocol import CHAT_COMPLETIONS, TOKENIZE
from services.parsing.foreign_json import parse_foreign

LONGEST_ERROR = 1 << 20
"""Bytes that are read of an engine's error."""


async def turn(
    inference: Inference, body: JsonObject, principal: str
) -> AsyncGenerator[Delta, None]:
    """The deltas of one turn, of which the last are its finish reason and its usage.

    ``body`` is a request for a chat completion, with a model and one choice. Close the iterator to
    abort the generation. The turn is metered, also one that is cut off.
    Raises the `TemperError` to respond with.
    """
    if body.get("stream"):
        options = {"include_usage": True, "continuous_usage_stats": True}
        body = {**body, "stream_options": options}
    used = TurnUsage()
    async with inference.open(CHAT_COMPLETIONS, body) as reply:
        await _check(reply)
        try:
            async with aclosing(read_deltas(reply)) as deltas:
                async for delta in deltas:
                    used = delta.usage or used
                    yield delta
        finally:
            spent = TokenUsage(
                prompt_tokens=used.prompt_tokens, completion_tokens=used.completion_tokens
            )
            inference.record(principal, str(body["model"]), spent)


async def count_tokens(inference: Inference, body: JsonObject) -> int:
    """The tokens of a conversation as the model's template renders it. ``body`` has the model, the
    messages and the tools; raises the `TemperError` to respond with."""
    async with inference.open(TOKENIZE, body) as reply:
        await _check(reply)
        try:
            return int(parse_foreign(await reply.read())["count"])
        except (aiohttp.ClientError, ValueError, TypeError, KeyError) as error:
            raise BadGateway("the engine did not count the tokens") from error


async def _check(reply: aiohttp.ClientResponse) -> None:
    """Raise the engine's error as one of ours."""
    if reply.ok:
        return
    content = await reply.content.read(LONGEST_ERROR)
    raise _error(reply.status, content)


def _error(status: int, content: bytes) -> TemperError:
    try:
        found = parse_foreign(content)["error"]
        message, param, code = (found.get(name) for name in ("message", "param", "code"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return BadGateway(f"the engine answered with status {status}")
    text = str(message)
    param, code = (value if isinstance(value, str) else None for value in (param, code))
    match status:
        case 400 | 413 | 422:
            return InvalidRequest(text, param=param, code=code)
        case 404:
            return NotFound(text, param=param, code=code)
        case 409:
            return Conflict(text, param=param, code=code)
        case 503:
            return Unavailable(text, code=code)
        case _:
            return BadGateway(f"the engine failed: {text}")
