"""Checks of chat messages and tools in OpenAI's format, shared by all kinds of files.

Written by hand for speed: files of hundreds of thousands of rows are read before a job queues.
"""

import json
from typing import Any

from services.datasets.record import JsonValue, RowError, decode_within, shown

ROLES = ("system", "developer", "user", "assistant", "tool")

Message = dict[str, Any]


def check_messages(messages: JsonValue) -> list[Message]:
    """Check the shape of every message and that tool messages answer the calls made.

    Keys that are null count as absent, and unknown keys are allowed. Raises RowError that names
    the path at fault, as in ``messages[2].content is missing``.
    """
    if messages is None:
        raise RowError("messages is missing")
    if not isinstance(messages, list):
        raise RowError(f"messages is {shown(messages)}, not a list")
    if not messages:
        raise RowError("messages is empty")
    open_calls: dict[str, int] = {}
    for position, message in enumerate(messages):
        role = _check_message(message, position)
        if role == "tool":
            _answer(message, position, open_calls)
            continue
        if open_calls:
            raise _unanswered(open_calls, messages)
        if role == "assistant" and message.get("tool_calls"):
            open_calls = _check_calls(message["tool_calls"], position)
    if open_calls and messages[-1]["role"] == "tool":
        raise _unanswered(open_calls, messages)
    return messages


def text_of(message: Message) -> str:
    """The text of a checked message, its parts joined; empty if it only calls tools."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or ())


def check_object(value: JsonValue, path: str) -> dict[str, Any]:
    """The value, if it is an object; raises RowError otherwise."""
    if isinstance(value, dict):
        return value
    if value is None:
        raise RowError(f"{path} is missing")
    raise RowError(f"{path} is {shown(value)}, not an object")


def check_text(value: JsonValue, path: str) -> str:
    """The value, if it is text, which may be empty; raises RowError otherwise."""
    if isinstance(value, str):
        return value
    if value is None:
        raise RowError(f"{path} is missing")
    raise RowError(f"{path} is {shown(value)}, not a string")


def _check_message(message: JsonValue, position: int) -> str:
    if not isinstance(message, dict):
        raise RowError(f"messages[{position}] is {shown(message)}, not an object")
    role = message.get("role")
    if role not in ROLES:
        place = f"messages[{position}].role"
        if role is None:
            raise RowError(f"{place} is missing")
        raise RowError(f"{place} is {shown(role)}; known are {', '.join(ROLES)}")
    content = message.get("content")
    if not isinstance(content, str):
        _check_content(message, role, position)
    if message.get("function_call") is not None:
        place = f"messages[{position}].function_call"
        raise RowError(f"{place} is OpenAI's deprecated way of calling; use tool_calls")
    if role != "assistant" and message.get("tool_calls"):
        raise RowError(f"messages[{position}].tool_calls: only the assistant calls tools")
    if message.get("name") is not None:
        check_text(message["name"], f"messages[{position}].name")
    return str(role)


def _check_content(message: Message, role: str, position: int) -> None:
    """Check content other than a string: text parts, or none next to tool calls."""
    content, place = message.get("content"), f"messages[{position}].content"
    if content is None:
        if role == "assistant" and message.get("tool_calls"):
            return
        raise RowError(f"{place} is missing")
    if not isinstance(content, list):
        raise RowError(f"{place} is {shown(content)}, not a string or a list of text parts")
    if not content:
        raise RowError(f"{place} is an empty list")
    for index, part in enumerate(content):
        where = f"{place}[{index}]"
        kind = check_object(part, where).get("type")
        if kind != "text":
            raise RowError(f"{where}.type is {shown(kind)}; only text can be used")
        check_text(part.get("text"), f"{where}.text")


def _check_calls(calls: JsonValue, position: int) -> dict[str, int]:
    """Check the calls of one message; returns the position of the message by call id."""
    place = f"messages[{position}].tool_calls"
    if not isinstance(calls, list):
        raise RowError(f"{place} is {shown(calls)}, not a list")
    ids: dict[str, int] = {}
    for index, call in enumerate(calls):
        where = f"{place}[{index}]"
        kind = check_object(call, where).get("type")
        if kind != "function":
            raise RowError(f"{where}.type is {shown(kind)}, not 'function'")
        identity = check_text(call.get("id"), f"{where}.id")
        if identity in ids:
            raise RowError(f"{where}.id is {shown(identity)}, like that of an earlier call")
        ids[identity] = position
        function = check_object(call.get("function"), f"{where}.function")
        if not check_text(function.get("name"), f"{where}.function.name"):
            raise RowError(f"{where}.function.name is empty")
        check_arguments(function.get("arguments"), f"{where}.function.arguments")
    return ids


def check_arguments(arguments: JsonValue, path: str) -> None:
    """Check the arguments of a call: an object, JSON text of one, or an empty text without any."""
    if isinstance(arguments, str) and not arguments.strip():
        return
    if isinstance(arguments, str):
        arguments = decode_within(arguments, path)
        if not isinstance(arguments, dict):
            raise RowError(f"{path} is JSON of {shown(arguments)}, not of an object")
    check_object(arguments, path)


def _answer(message: Message, position: int, open_calls: dict[str, int]) -> None:
    place = f"messages[{position}].tool_call_id"
    identity = check_text(message.get("tool_call_id"), place)
    if identity not in open_calls:
        raise RowError(f"{place} is {shown(identity)}, which answers no open call")
    del open_calls[identity]


def _unanswered(open_calls: dict[str, int], messages: list[Message]) -> RowError:
    identity, position = next(iter(open_calls.items()))
    calls = [call["id"] for call in messages[position]["tool_calls"]]
    return RowError(
        f"messages[{position}].tool_calls[{calls.index(identity)}] has no tool message "
        "that answers it"
    )


def check_tools(tools: JsonValue) -> str:
    """Check a list of functions, or its JSON text, and return it as JSON text.

    A function may be bare or wrapped as OpenAI does, ``{"type": "function", "function": ...}``.
    None, an empty list and an empty string return "". Raises RowError.
    """
    text = tools if isinstance(tools, str) else ""
    if text.strip():
        tools = decode_within(text, "tools")
        if not isinstance(tools, list):
            raise RowError(f"tools is JSON of {shown(tools)}, not of a list")
    if tools is None or tools == [] or (isinstance(tools, str) and not text.strip()):
        return ""
    if not isinstance(tools, list):
        raise RowError(f"tools is {shown(tools)}, not a list")
    for position, tool in enumerate(tools):
        _check_tool(check_object(tool, f"tools[{position}]"), f"tools[{position}]")
    return text or json.dumps(tools, ensure_ascii=False, separators=(",", ":"))


def _check_tool(tool: dict[str, Any], path: str) -> None:
    kind = tool.get("type")
    if kind is None and tool.get("function") is None:
        _check_function(tool, path)
    elif kind != "function":
        raise RowError(f"{path}.type is {shown(kind)}, not 'function'")
    else:
        _check_function(check_object(tool.get("function"), f"{path}.function"), f"{path}.function")


def _check_function(function: dict[str, Any], path: str) -> None:
    if not check_text(function.get("name"), f"{path}.name"):
        raise RowError(f"{path}.name is empty")
    if function.get("description") is not None:
        check_text(function["description"], f"{path}.description")
    parameters = function.get("parameters")
    if parameters is None:
        return
    kind = check_object(parameters, f"{path}.parameters").get("type", "object")
    if kind != "object":
        raise RowError(f"{path}.parameters.type is {shown(kind)}, not 'object'")
