"""Bodies with a wrong value anywhere are refused by name, or valid: never an internal error."""

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from services.api.messages.request import chat_body
from services.api.responses.items import stored_input
from services.api.responses.request import CreateResponse
from services.api.responses.tools.declared import split_tools
from services.api.serving.request_body import parse_request
from services.api.settings import ApiSettings
from services.contracts.errors import TemperError
from services.contracts.kinds import KINDS, Kind
from services.contracts.sandbox.programs import RunCodeRequest
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import check_program
from tests.unit.core.web.bodies import example, is_valid, models

WRONG: tuple[Any, ...] = (
    *([], {}, [[]], [1], {"a": 1}, [{"a": 1}], "", 0, -1, 1.5, True, None),
    *(1e308, 10**30, "\u0000", "x" * 20_000),
)
"""Values that a JSON body can have in place of any field."""


def variants(body: Any) -> Iterator[Any]:
    """The body with each of its values, at any depth, replaced by each of the wrong ones."""
    for path in _paths(body):
        for wrong in WRONG:
            changed = copy.deepcopy(body)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = copy.deepcopy(wrong)
            yield changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(each, (*path, step))


@pytest.mark.parametrize("model", models(), ids=lambda each: each.__qualname__)
def test_a_wrong_value_is_valid_or_a_validation_error(model: type[BaseModel]) -> None:
    body = example(model)
    others = [name for name in model.model_fields if name not in body]
    bodies = [{**body, name: wrong} for name in others for wrong in WRONG]
    for each in (*WRONG, *bodies, *variants(body)):
        try:
            model.model_validate(each)
        except ValidationError:
            continue


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda each: each.name)
def test_a_request_of_every_kind_has_an_example(kind: Kind) -> None:
    bodies: tuple[type[BaseModel], ...] = (kind.request, kind.body)
    for model in bodies:
        assert is_valid(model, example(model))


TOOL = {"type": "object", "properties": {"a": {"type": "string"}}}
MESSAGES: dict[str, Any] = {
    "model": "base",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "a"}],
    "messages": [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"a": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [{"type": "text", "text": "a"}],
                },
                {"type": "text", "text": "a"},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "a", "input_schema": TOOL}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "output_config": {"format": {"type": "json_schema", "schema": TOOL}},
    "stop_sequences": ["a"],
    "temperature": 1,
    "stream": True,
    "metadata": {"user_id": "a"},
    "mcp_servers": [],
}
RESPONSE: dict[str, Any] = {
    "model": "base",
    "instructions": "a",
    "input": "a",
    "tools": [{"type": "function", "name": "f", "parameters": TOOL, "strict": True}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "a", "schema": TOOL}},
    "metadata": {"a": "b"},
}
CONTENT = [{"type": "input_text", "text": "a"}]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "a"},
    {"type": "message", "id": "msg_1", "status": "completed", "role": "user", "content": CONTENT},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "a"},
    {
        "type": "mcp_call",
        "id": "2",
        "name": "f",
        "arguments": "{}",
        "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "a"}]},
    },
    {"type": "mcp_call", "id": "3", "name": "f", "arguments": "{}", "output": "a"},
    {
        "type": "code_interpreter_call",
        "id": "4",
        "code": "1",
        "outputs": [{"type": "logs", "logs": "a"}],
    },
    {
        "type": "file_search_call",
        "id": "5",
        "queries": ["a"],
        "results": [{"text": "a", "score": 0.5}],
    },
    {"type": "mcp_list_tools", "id": "6", "tools": []},
]
SERVER_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "f", "description": "a", "parameters": TOOL},
    {
        "type": "mcp",
        "server_label": "sums",
        "server_url": "http://127.0.0.1:9000/mcp",
        "allowed_tools": {"tool_names": ["add"]},
        "require_approval": "never",
        "headers": {},
    },
    {
        "type": "openenv",
        "server_label": "game",
        "server_url": "http://127.0.0.1:9000/mcp",
        "reset": {"seed": 1},
    },
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {
        "type": "file_search",
        "vector_store_ids": ["manuals"],
        "max_num_results": 2,
        "ranking_options": {},
        "filters": None,
    },
]
COMPLETION: dict[str, Any] = {
    "model": "base",
    "prompt": ["a", "b"],
    "n": 2,
    "best_of": 2,
    "stream": True,
    "stream_options": {"include_usage": False},
    "stop_token_ids": None,
    "guided_json": None,
}
PROGRAM: dict[str, Any] = {
    "code": "print(1)",
    "language": "python",
    "compile_timeout": 1,
    "run_timeout": "2.5",
    "memory_limit_MB": 64,
    "files": {"a/b.txt": "YQ=="},
    "fetch_files": ["*.png"],
}
GATEWAY = ApiSettings(allowed_endpoints=["http://127.0.0.1:9000"])
SANDBOX = SandboxSettings()


def read_response(body: Any) -> None:
    """What the route of responses reads of a body before it begins."""
    CreateResponse.model_validate(body).check()


def read_items(items: Any) -> None:
    """What the route of responses reads of its input."""
    stored_input(CreateResponse.model_validate({"model": "base", "input": items}).input)


async def forward(body: Any) -> None:
    """What the gateway reads of a body that it passes on to an engine."""
    request = await parse_request(json.dumps(body).encode(), 16)
    request.upstream_body([1])


READERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "messages": (chat_body, MESSAGES),
    "responses": (read_response, RESPONSE),
    "items of responses": (read_items, ITEMS),
    "tools of responses": (lambda body: split_tools(body, GATEWAY), SERVER_TOOLS),
    "completions": (lambda body: asyncio.run(forward(body)), COMPLETION),
    "programs": (
        lambda body: check_program(RunCodeRequest.model_validate(body), SANDBOX),
        PROGRAM,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_wrong_value_in_a_body_read_by_hand_is_refused_by_name(name: str) -> None:
    read, body = READERS[name]
    read(copy.deepcopy(body))
    for each in variants(body):
        try:
            read(each)
        except (TemperError, ValidationError):
            continue
