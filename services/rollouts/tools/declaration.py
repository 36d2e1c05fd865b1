"""Declarations of tools: tool files, and checked declarations."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.tool_files import LARGEST_FILE, parse_tool_file
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    McpConfig,
    SandboxConfig,
    SearchConfig,
    ToolConfig,
    ToolKind,
    kind_of,
)
from services.rollouts.tools.families import ToolFamily, find_family
from services.rollouts.tools.schema import checked_schema

CONFIGS: dict[ToolKind, type[ToolConfig]] = {
    ToolKind.SANDBOX: SandboxConfig,
    ToolKind.RETOOL: SandboxConfig,
    ToolKind.SEARCH: SearchConfig,
    ToolKind.HTTP: HttpConfig,
    ToolKind.CALLABLE: CallableConfig,
    ToolKind.MCP: McpConfig,
}

USED = {
    ToolKind.SANDBOX: "code",
    ToolKind.RETOOL: "code",
    ToolKind.SEARCH: "query_list",
}
"""The argument that a kind requires."""


@dataclass(frozen=True)
class Declaration:
    """A valid declaration; ``param`` is its request field, ``kind`` one of ours or an extension."""

    config: ToolConfig
    kind: ToolKind | ToolFamily[Any]
    schema: JsonObject
    param: str

    @property
    def name(self) -> str:
        """The name that models call."""
        return str(self.schema["function"]["name"])

    @property
    def parameters(self) -> JsonObject:
        """The JSON schema of its arguments."""
        return dict(self.schema["function"]["parameters"])


def declarations(tools: Sequence[Tool], param: str) -> list[Declaration]:
    """Check declared tools; raises `InvalidRequest` naming the field below ``param``."""
    read = [_declaration(tool, f"{param}[{index}]") for index, tool in enumerate(tools)]
    names: set[str] = set()
    for declaration in read:
        if declaration.name in names:
            raise InvalidRequest(
                f"{declaration.name!r} is already the name of an earlier tool",
                param=f"{declaration.param}.tool_schema.function.name",
            )
        names.add(declaration.name)
    return read


def _declaration(tool: Tool, param: str) -> Declaration:
    name = tool.class_name
    kind = kind_of(name) or find_family(name, f"{param}.class_name")
    if isinstance(kind, ToolKind):
        config, own_schema, used = CONFIGS[kind], _OWN_SCHEMAS.get(kind), USED.get(kind)
    else:
        config, own_schema, used = kind.config, kind.schema, None
    schema = tool.tool_schema if tool.tool_schema is not None else own_schema
    if schema is None:
        message = f"a tool of class {name} must declare its arguments in tool_schema"
        raise InvalidRequest(message, param=f"{param}.tool_schema")
    declaration = Declaration(
        config=_config(config, tool.config, f"{param}.config"),
        kind=kind,
        schema=checked_schema(schema, f"{param}.tool_schema"),
        param=param,
    )
    if used is not None and used not in declaration.parameters.get("properties", {}):
        raise InvalidRequest(
            f"the schema of a tool of class {name} must declare the argument {used!r}",
            param=f"{param}.tool_schema.function.parameters.properties",
        )
    return declaration


def _config(model: type[ToolConfig], config: JsonObject, param: str) -> ToolConfig:
    try:
        return model.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(first["msg"], param=f"{param}.{where}" if where else param) from None


def _function(name: str, description: str, argument: str, schema: dict[str, Any]) -> JsonObject:
    parameters = {"type": "object", "properties": {argument: schema}, "required": [argument]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_CODE = _function(
    "code_interpreter",
    "Runs Python code and returns what it prints.",
    "code",
    {"type": "string", "description": "The code to run."},
)
_OWN_SCHEMAS = {
    ToolKind.SANDBOX: _CODE,
    ToolKind.RETOOL: _CODE,
    ToolKind.SEARCH: _function(
        "search",
        "Searches for passages that answer queries.",
        "query_list",
        {"type": "array", "items": {"type": "string"}, "description": "Complete questions."},
    ),
}


def read_tool_file(path: Path) -> list[Tool]:
    """The tools in a file; raises `InvalidRequest` naming file and field.

    Does not check the tools themselves: see `check_tools`.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST_FILE + 1)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InvalidRequest(message, param="tools") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8: {error}", param="tools") from error
    return parse_tool_file(text, str(path))
