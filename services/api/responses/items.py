"""The items of a conversation: as they are stored, and as the messages that a model reads."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from services.contracts.base import JsonObject
from services.dialects.fields import objects, wrong
from services.dialects.responses import messages_of
from services.dialects.system_message import with_one_system

_SERVER_CALLS = ("mcp_call", "code_interpreter_call", "file_search_call")
_UNREAD = ("mcp_list_tools", "item_reference")


def stored_input(given: str | Sequence[JsonObject]) -> list[JsonObject]:
    """The input of a request as items with ids; raises `InvalidRequest` naming the item."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    list(messages_of(list(expanded(given))))
    return [_identified(item) for item in given]


def _identified(item: JsonObject) -> JsonObject:
    kind = item.get("type", "message")
    identity = item.get("id") or f"{_PREFIXES.get(kind, 'item')}_{secrets.token_hex(12)}"
    whole = {**item, "type": kind, "id": identity, "status": item.get("status") or "completed"}
    if kind == "message" and isinstance(item.get("content"), str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        extra: JsonObject = {"annotations": []} if part == "output_text" else {}
        whole["content"] = [{"type": part, "text": item["content"], **extra}]
    return whole


_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco"}


def messages_for(instructions: str | None, items: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages of a conversation; raises `InvalidRequest`."""
    begin = [{"role": "system", "content": instructions}] if instructions else []
    return with_one_system([*begin, *messages_of(list(expanded(items)))])


def expanded(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """The items with each call of a server's tool as a function call and its result, as the model
    saw it; raises `InvalidRequest` naming the item."""
    for place, item in objects(list(items), "input"):
        kind = item.get("type")
        if kind in _UNREAD:
            continue
        if kind not in _SERVER_CALLS:
            yield item
            continue
        name, arguments, result = seen(item, place)
        call = {"call_id": item.get("id"), "name": name, "arguments": arguments}
        yield {"type": "function_call", **call}
        yield {"type": "function_call_output", "call_id": item.get("id"), "output": result}


def seen(item: JsonObject, place: str) -> tuple[str, Any, str]:
    """What the model saw of a call of the server's: the tool's name, arguments and result. Raises
    `InvalidRequest` naming the field, below ``place``."""
    match item["type"]:
        case "mcp_call":
            error = item.get("error") or {}
            if not isinstance(error, dict):
                raise wrong(f"{place}.error", error, "an object")
            parts = objects(error.get("content"), f"{place}.error.content")
            failed = "\n".join(str(part.get("text")) for _, part in parts)
            return (
                str(item.get("name")),
                item.get("arguments") or "{}",
                str(item.get("output") or failed or ""),
            )
        case "code_interpreter_call":
            outputs = objects(item.get("outputs"), f"{place}.outputs")
            logs = "".join(str(each.get("logs", "")) for _, each in outputs)
            return "code_interpreter", {"code": item.get("code") or ""}, logs
        case _:
            results = objects(item.get("results"), f"{place}.results")
            passages = [str(each.get("text") or "") for _, each in results]
            queries = item.get("queries") or []
            return "file_search", {"queries": queries}, "\n\n".join(passages) or "Nothing found."
