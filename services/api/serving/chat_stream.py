"""Reads an engine's chat completion, streamed or whole, as the deltas of a turn."""

from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from services.contracts.base import JsonObject
from services.contracts.errors import BadGateway
from services.dialects.deltas import CallDelta, Delta, TurnUsage
from services.parsing.foreign_json import parse_foreign

LONGEST_EVENT = 16 << 20
"""Bytes."""
_DATA = b"data:"
_DONE = b"[DONE]"


async def read_deltas(reply: aiohttp.ClientResponse) -> AsyncGenerator[Delta, None]:
    """The deltas of an answer with status 200.

    Raises `BadGateway` for one that breaks off or is not a chat completion.
    """
    try:
        if reply.content_type != "text/event-stream":
            yield _delta(await _whole(reply), "message")
            return
        async for data in _events(reply):
            if data == _DONE:
                return
            yield _delta(_object(data), "delta")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise BadGateway("the engine broke off its answer", code="engine_died") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadGateway(f"the engine's answer cannot be read: {error}") from error
    raise BadGateway("the engine broke off its answer", code="engine_died")


async def _whole(reply: aiohttp.ClientResponse) -> JsonObject:
    return _object(await reply.read())


async def _events(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The data of each event; engines write one line of it."""
    rest = b""
    while chunk := await reply.content.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_EVENT:
            raise ValueError("an event has no end")
        for line in lines:
            if line.startswith(_DATA):
                yield line[len(_DATA) :].strip()


def _object(data: bytes) -> JsonObject:
    value = parse_foreign(data)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    if isinstance(value.get("error"), dict):
        raise BadGateway(f"the engine failed: {value['error'].get('message')}")
    return value


def _delta(chunk: JsonObject, name: str) -> Delta:
    """The delta of a chunk, or of a whole completion, which has ``message`` in its place."""
    usage = _usage(chunk.get("usage"))
    choices = chunk.get("choices") or ()
    if not choices:
        return Delta(usage=usage)
    [choice] = choices
    grown: JsonObject = choice.get(name) or {}
    stop = choice.get("stop_reason")
    return Delta(
        reasoning=str(grown.get("reasoning") or grown.get("reasoning_content") or ""),
        content=str(grown.get("content") or ""),
        calls=tuple(_call(call, place) for place, call in enumerate(grown.get("tool_calls") or ())),
        finish_reason=choice.get("finish_reason"),
        stop_sequence=stop if isinstance(stop, str) else None,
        usage=usage,
    )


def _call(call: JsonObject, place: int) -> CallDelta:
    function: JsonObject = call.get("function") or {}
    return CallDelta(
        index=int(call.get("index", place)),
        id=call.get("id"),
        name=function.get("name"),
        arguments=str(function.get("arguments") or ""),
    )


def _usage(usage: Any) -> TurnUsage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or {}
    return TurnUsage(
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )
