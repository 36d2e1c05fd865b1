"""Declarations of tools: tool files, and checked declarations."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.validation import first_fault
from services.core.extensions import blamed_on
from services.parsing.tool_files import LARGEST_FILE, parse_tool_file
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    McpConfig,
    OpenEnvConfig,
    SandboxConfig,
    SearchConfig,
    ToolConfig,
    ToolKind,
    kind_of,
)
from services.rollouts.tools.families import ToolFamily, find_family

CONFIGS: dict[ToolKind, type[ToolConfig]] = {
    ToolKind.SANDBOX: SandboxConfig,
    ToolKind.RETOOL: SandboxConfig,
    ToolKind.SEARCH: SearchConfig,
    ToolKind.HTTP: HttpConfig,
    ToolKind.CALLABLE: CallableConfig,
    ToolKind.MCP: McpConfig,
    ToolKind.OPENENV: OpenEnvConfig,
}

TOLD_BY_SERVERS = frozenset({ToolKind.MCP, ToolKind.OPENENV})
"""Kinds whose server lists its tools, so that a declaration needs no schema."""

USED = {
    ToolKind.SANDBOX: "code",
    ToolKind.RETOOL: "code",
    ToolKind.SEARCH: "query_list",
}
"""The argument that a kind requires."""


@dataclass(frozen=True)
class Declaration:
    """A valid declaration; ``param`` is its request field, ``kind`` one of ours or an extension,
    whose name is the ``class_name``.

    ``schema`` is None where the tool's server tells which tools there are. ``sources`` are those
    of the rows that are offered it, None for all.
    """

    config: ToolConfig
    kind: ToolKind | ToolFamily[Any]
    class_name: str
    schema: JsonObject | None
    param: str
    sources: Sequence[str] | None = None

    @property
    def name(self) -> str:
        """The name that models call, or the kind of a server that tells the names."""
        return str(self.kind) if self.schema is None else name_of(self.schema)


def name_of(schema: JsonObject) -> str:
    """The name of a tool, by its checked schema."""
    return str(schema["function"]["name"])


def parameters_of(schema: JsonObject) -> JsonObject:
    """The JSON schema of a tool's arguments, by its checked schema."""
    return dict(schema["function"]["parameters"])


def declarations(tools: Sequence[Tool], param: str) -> list[Declaration]:
    """Check declared tools; raises `InvalidRequest` naming the field below ``param``."""
    read = [_declaration(tool, f"{param}[{index}]") for index, tool in enumerate(tools)]
    names: set[str] = set()
    for declaration in read:
        if declaration.schema is not None and declaration.name in names:
            raise InvalidRequest(
                f"{declaration.name!r} is already the name of an earlier tool",
                param=f"{declaration.param}.tool_schema.function.name",
            )
        names.add(declaration.name)
    return read


def _declaration(tool: Tool, param: str) -> Declaration:
    # The gateway reads declarations for the few requests with tools.
    from services.rollouts.tools.schema import checked_schema  # noqa: PLC0415 - loads jsonschema

    name = tool.class_name
    kind = kind_of(name) or find_family(name, f"{param}.class_name")
    if isinstance(kind, ToolKind):
        config, own_schema, used = CONFIGS[kind], _OWN_SCHEMAS.get(kind), USED.get(kind)
    else:
        config, own_schema, used = kind.config, kind.schema, None
    schema = tool.tool_schema if tool.tool_schema is not None else own_schema
    if schema is None and kind not in TOLD_BY_SERVERS:
        message = f"a tool of class {name} must declare its arguments in tool_schema"
        raise InvalidRequest(message, param=f"{param}.tool_schema")
    checked = None
    with _blamed_for_schema(tool, kind, f"{param}.class_name"):
        if schema is not None:
            checked = checked_schema(schema, f"{param}.tool_schema")
    is_family = isinstance(kind, ToolFamily)
    with blamed_on(name, f"{param}.config") if is_family else nullcontext():
        checked_config = _config(config, tool.config, f"{param}.config")
    declaration = Declaration(
        config=checked_config,
        kind=kind,
        class_name=name,
        schema=checked,
        param=param,
        sources=tool.sources,
    )
    if used is not None and checked and used not in parameters_of(checked).get("properties", {}):
        raise InvalidRequest(
            f"the schema of a tool of class {name} must declare the argument {used!r}",
            param=f"{param}.tool_schema.function.parameters.properties",
        )
    return declaration


@contextmanager
def _blamed_for_schema(tool: Tool, kind: ToolKind | ToolFamily[Any], param: str) -> Iterator[None]:
    """Blame an extension's own schema on the extension, not on a field that nobody gave."""
    if not isinstance(kind, ToolFamily) or tool.tool_schema is not None:
        yield
        return
    with blamed_on(tool.class_name, param, "has a schema that cannot be used"):
        try:
            yield
        except InvalidRequest as error:
            raise ValueError(error.message) from error


def _config(model: type[ToolConfig], config: JsonObject, param: str) -> ToolConfig:
    try:
        return model.model_validate(config)
    except ValidationError as error:
        fault = first_fault(error)
        where = f"{param}.{fault.field}" if fault.field else param
        raise InvalidRequest(fault.message, param=where) from None


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
