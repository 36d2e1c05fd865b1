"""The tools that a request declares: functions of the caller, and tools of the server."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

from services.api.responses.tools.base import Reply, Source, Tool
from services.api.responses.tools.code_interpreter import CodeInterpreterSource
from services.api.responses.tools.file_search import FileSearchSource
from services.api.responses.tools.mcp import McpSource
from services.api.responses.tools.openenv import OpenEnvSource
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.core.operator_environment import OperatorEnvironment
from services.datasets.record import shown
from services.dialects.exchange import Event
from services.dialects.fields import function_tool, objects, text_field
from services.dialects.responses_writer import ResponseWriter, ServerCall

KINDS = "function, mcp, openenv, code_interpreter, file_search"


class ServerTools:
    """The server's tools of a response; ``taken`` are names of the caller's functions."""

    def __init__(self, sources: Sequence[Source], taken: Sequence[str]) -> None:
        self._sources = sources
        self._taken = frozenset(taken)
        self._names = {name for source in sources for name in source.names}

    def has(self, name: str) -> bool:
        """Whether the server runs the function; those of MCP servers are known once open."""
        return name in self._names

    async def open(self, stack: AsyncExitStack) -> "OpenTools":
        """The tools, with connections scoped to the stack; raises `TemperError`."""
        tools: dict[str, Tool] = {}
        listing: list[JsonObject] = []
        for source in self._sources:
            opened = await source.open(stack)
            listing += opened.listing
            for tool in opened.tools:
                name = tool.schema["function"]["name"]
                if name in tools or name in self._taken:
                    raise InvalidRequest(f"two tools are named {name!r}", param="tools")
                tools[name] = tool
        self._names |= tools.keys()
        return OpenTools(tools, listing)


class OpenTools:
    """The tools of one run."""

    def __init__(self, tools: dict[str, Tool], listing: Sequence[JsonObject]) -> None:
        self.schemas = [tool.schema for tool in tools.values()]
        self._tools = tools
        self._listing = listing
        self._identity = ""

    def listing(self, writer: ResponseWriter) -> Iterator[Event]:
        """The items that list the tools of MCP servers, unless an earlier run wrote them."""
        listed = {item.get("server_label") for item in writer.output}
        for item in self._listing:
            if item["server_label"] in listed:
                continue
            begun = {**item, "tools": []}
            yield from writer.begin_item(begun, ("response.mcp_list_tools.in_progress", {}))
            yield from writer.end_item(item, ("response.mcp_list_tools.completed", {}))

    def begin(self, call: ServerCall, writer: ResponseWriter) -> Iterator[Event]:
        """The item of a call begins."""
        self._identity = secrets.token_hex(12)
        shown = self._tools[call.name].begun(self._identity, call)
        yield from writer.begin_item(shown.item, *shown.events)

    async def call(self, call: ServerCall) -> Reply:
        """Run the call that has begun."""
        return await self._tools[call.name].run(self._identity, call)

    def end(self, reply: Reply, writer: ResponseWriter) -> Iterator[Event]:
        """The item of the call is finished."""
        yield from writer.end_item(reply.shown.item, *reply.shown.events)


def split_tools(
    declared: Sequence[JsonObject], settings: ApiSettings
) -> tuple[list[JsonObject], ServerTools]:
    """The caller's functions as a chat completion has them, and the server's tools.

    Raises `InvalidRequest` and `PermissionDenied` naming the field; contacts nobody.
    """
    functions: list[JsonObject] = []
    sources: list[Source] = []
    for place, tool in objects(list(declared), "tools"):
        if tool.get("type") == "function":
            name = text_field(tool, "name", place)
            described, parameters = tool.get("description"), tool.get("parameters")
            functions.append(function_tool(name, described, parameters, tool.get("strict")))
        else:
            sources.append(_source(tool, place, settings))
    names = [each["function"]["name"] for each in functions]
    names += [name for source in sources for name in source.names]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"two tools are named {name!r}", param="tools")
    return functions, ServerTools(sources, [each["function"]["name"] for each in functions])


def _source(tool: JsonObject, place: str, settings: ApiSettings) -> Source:
    operator = OperatorEnvironment.of(settings)
    match tool.get("type"):
        case "mcp":
            return McpSource(tool, place, settings.allowed_endpoints, operator)
        case "openenv":
            return OpenEnvSource(tool, place, settings.allowed_endpoints, operator)
        case "code_interpreter":
            return CodeInterpreterSource(tool, place, operator)
        case "file_search":
            return FileSearchSource(tool, place, operator)
        case other:
            raise InvalidRequest(f"is {shown(other)}, not one of {KINDS}", param=f"{place}.type")
