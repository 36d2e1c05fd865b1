"""Checks of the tools that a training row offers."""

import json
from typing import Any

from services.datasets.decoding import decode_within
from services.datasets.messages import check_object, check_text
from services.datasets.record import JsonValue, RowError, shown


def check_tools(tools: JsonValue) -> str:
    """Check a list of functions, or JSON text of one, and return it as JSON text.

    A function may stand by itself or, as OpenAI writes it, under ``function`` of an object of
    that type. Nothing, an empty list and an empty text mean no tools and return "". Raises
    RowError.
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
