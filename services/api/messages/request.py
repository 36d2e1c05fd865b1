"""Anthropic's request as a chat completion of an engine."""

from collections.abc import Callable
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import shown
from services.dialects.exchange import ModelRequest
from services.dialects.fields import objects, text_field, wrong
from services.dialects.messages import MESSAGES
from services.dialects.system_message import with_one_system

BILLING = "x-anthropic-billing-header"
"""Begins a system text of Claude Code with a hash of each request, which would keep every prompt
out of the prefix cache. It is meant for Anthropic's accounting."""

_REFUSED = ("mcp_servers", "container")
_KEPT = ("temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def conversation_of(body: JsonObject) -> ModelRequest:
    """The conversation and the tools of a request; raises `InvalidRequest` naming the field."""
    for name in _REFUSED:
        if body.get(name):
            raise InvalidRequest("is not supported here: the caller runs the tools", param=name)
    text_field(body, "model", "")
    return MESSAGES.read(_without_billing(body))


def chat_body(body: JsonObject) -> JsonObject:
    """The chat completion that answers a request; raises `InvalidRequest` naming the field."""
    asked = conversation_of(body)
    if asked.max_tokens is None:
        raise InvalidRequest("is missing", param="max_tokens")
    chat: JsonObject = {**rendered(asked, body), "max_tokens": asked.max_tokens}
    chat |= {name: body[name] for name in _KEPT if body.get(name) is not None}
    if body.get("stop_sequences"):
        chat["stop"] = body["stop_sequences"]
    if asked.stream:
        chat["stream"] = True
    for name, translate in _TRANSLATED.items():
        if body.get(name) is not None:
            if not isinstance(body[name], dict):
                raise wrong(name, body[name], "an object")
            chat |= translate(body[name])
    return chat


def rendered(asked: ModelRequest, body: JsonObject) -> JsonObject:
    """The part of a chat completion that decides its prompt."""
    chat: JsonObject = {"model": body["model"], "messages": with_one_system(asked.messages)}
    if asked.tools:
        chat["tools"] = list(asked.tools)
    last = asked.messages[-1]
    if last["role"] == "assistant" and not last.get("tool_calls"):  # the answer's beginning
        chat |= {"continue_final_message": True, "add_generation_prompt": False}
    return chat


def _without_billing(body: JsonObject) -> JsonObject:
    system = body.get("system")
    if not isinstance(system, list):
        return body
    kept = [
        block
        for _, block in objects(system, "system")
        if not str(block.get("text", "")).startswith(BILLING)
    ]
    return {**body, "system": kept}


def _choice(choice: JsonObject) -> JsonObject:
    kind = choice.get("type")
    parallel = choice.get("disable_parallel_tool_use")
    chat: JsonObject = {"parallel_tool_calls": False} if parallel else {}
    if kind == "tool":
        function = {"name": text_field(choice, "name", "tool_choice")}
        return {**chat, "tool_choice": {"type": "function", "function": function}}
    if not isinstance(kind, str) or kind not in _CHOICES:
        known = ", ".join((*_CHOICES, "tool"))
        raise InvalidRequest(f"is {shown(kind)}, not one of {known}", param="tool_choice.type")
    return {**chat, "tool_choice": _CHOICES[kind]}


def _thinking(thinking: JsonObject) -> JsonObject:
    """Templates of models that can think or not read ``enable_thinking``."""
    match thinking.get("type"):
        case "enabled" | "disabled" as kind:
            return {"chat_template_kwargs": {"enable_thinking": kind == "enabled"}}
        case "adaptive":
            return {}
        case other:
            known = "enabled, disabled, adaptive"
            raise InvalidRequest(f"is {shown(other)}, not one of {known}", param="thinking.type")


def _output(config: JsonObject) -> JsonObject:
    described: Any = config.get("format")
    if described is None:
        return {}
    if not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
        raise wrong("output_config.format", described, "a JSON schema")
    schema = {"name": "answer", "schema": described["schema"]}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


_TRANSLATED: dict[str, Callable[[JsonObject], JsonObject]] = {
    "tool_choice": _choice,
    "thinking": _thinking,
    "output_config": _output,
}
