"""Opens what declarations of tools name: services, functions, MCP servers and environments."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from pydantic import AnyHttpUrl

from services.contracts.base import JsonObject
from services.contracts.rollouts.sources import applies
from services.core.extensions import blamed_on
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import FunctionPool, check_function_allowed
from services.rollouts.tools.base import SessionServer, ToolBackend, ToolResult, ToolSession
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    McpConfig,
    OpenEnvConfig,
    SandboxConfig,
    SearchConfig,
    ToolKind,
)
from services.rollouts.tools.declaration import Declaration, parameters_of
from services.rollouts.tools.endpoints import (
    check_command,
    plain_endpoint,
    sandbox_endpoint,
    search_endpoint,
)
from services.rollouts.tools.extension_tool import ExtensionTool
from services.rollouts.tools.families import ToolFamily
from services.rollouts.tools.mcp import McpServer
from services.rollouts.tools.mcp_calls import McpTool
from services.rollouts.tools.mcp_program import McpPrograms
from services.rollouts.tools.openenv import OpenEnvServer
from services.rollouts.tools.retool import runnable
from services.rollouts.tools.sandbox import SandboxTool, sandbox_service
from services.rollouts.tools.search import SearchTool, search_service
from services.rollouts.tools.user_tools import FunctionTool, HttpTool, http_service

SERVERS = (McpServer, McpPrograms, OpenEnvServer)
"""They tell which tools they have."""


@dataclass(frozen=True)
class _SessionTool:
    """A tool of the session that a rollout has with a server."""

    session: ToolSession
    name: str
    idempotent: bool = False

    async def run(self, arguments: JsonObject) -> ToolResult:
        return await self.session.call(self.name, arguments)

    async def probe(self) -> None:
        """The server was asked before the session began."""


@dataclass(frozen=True)
class OpenDeclaration:
    """What a declaration opened: a tool, or a server whose tools it may be that tells.

    ``slots`` bound the calls in flight, except of servers whose sessions bound themselves.
    """

    declaration: Declaration
    opened: ToolBackend | McpServer | McpPrograms | OpenEnvServer
    slots: asyncio.Semaphore

    @property
    def sessions(self) -> SessionServer | None:
        """The server, if each rollout has a session with it."""
        return self.opened if isinstance(self.opened, McpPrograms | OpenEnvServer) else None

    def serves(self, source: str | None) -> bool:
        """Whether a row of a source is offered its tools."""
        return applies(self.declaration.sources, source)

    def meets(self, other: "OpenDeclaration") -> bool:
        """Whether a row may be offered the tools of both."""
        mine, others = self.declaration.sources, other.declaration.sources
        return mine is None or others is None or not set(mine).isdisjoint(others)

    def tool(self, schema: JsonObject, served_name: str) -> "OpenTool":
        """A tool of the declaration, which its server knows by ``served_name``."""
        return OpenTool(self, schema, served_name, _check(self.declaration, schema))


@dataclass(frozen=True)
class OpenTool:
    """A tool that models may call; ``check`` raises `ToolError` for unusable arguments."""

    source: OpenDeclaration
    schema: JsonObject
    served_name: str
    check: Callable[[JsonObject], None] | None

    def backend(self, session: ToolSession | None) -> ToolBackend | None:
        """What its calls go to; None for a tool of sessions outside of a session."""
        opened = self.source.opened
        if isinstance(opened, McpPrograms | OpenEnvServer):
            return None if session is None else _SessionTool(session, self.served_name)
        if isinstance(opened, McpServer):
            idempotent = getattr(self.source.declaration.config, "idempotent", False)
            return McpTool(opened, self.served_name, idempotent=idempotent)
        return opened


async def open_declaration(
    declaration: Declaration, environment: OperatorEnvironment, stack: AsyncExitStack
) -> OpenDeclaration:
    """Open a tool or a server, without contacting it, for as long as ``stack`` lasts."""
    server = await _server(declaration, environment, stack)
    opened = server or await _backend(declaration, environment, stack)
    slots = asyncio.Semaphore(declaration.config.max_in_flight)
    return OpenDeclaration(declaration, opened, slots)


def _check(declaration: Declaration, schema: JsonObject) -> Callable[[JsonObject], None] | None:
    """Kinds with fixed arguments check them on use, unless their schema is strict."""
    strict = schema["function"].get("strict")
    if strict or declaration.kind not in {ToolKind.SANDBOX, ToolKind.RETOOL, ToolKind.SEARCH}:
        from services.rollouts.tools.schema import argument_check  # noqa: PLC0415 - loads jsonschema

        return argument_check(parameters_of(schema))
    return None


async def _server(
    declaration: Declaration, environment: OperatorEnvironment, stack: AsyncExitStack
) -> McpServer | McpPrograms | OpenEnvServer | None:
    match declaration.config:
        case McpConfig(command=str(name)) as config:
            where = f"{declaration.param}.config.command"
            check_command(name, environment.mcp_commands, where)
            return McpPrograms(environment.mcp_commands[name], config.timeout, config.max_in_flight)
        case McpConfig(url=AnyHttpUrl() as url) as config:
            server = McpServer(plain_endpoint(url, environment), config)
            return await stack.enter_async_context(server)
        case OpenEnvConfig() as config:
            action = None if declaration.schema is None else declaration.name
            world = OpenEnvServer(plain_endpoint(config.url, environment), config, action)
            return await stack.enter_async_context(world)
        case _:
            return None


async def _backend(
    declaration: Declaration, environment: OperatorEnvironment, stack: AsyncExitStack
) -> ToolBackend:
    if isinstance(declaration.kind, ToolFamily):
        with blamed_on(declaration.class_name, f"{declaration.param}.class_name"):
            opened = declaration.kind.open(declaration.config, environment)
            return ExtensionTool(declaration.class_name, await stack.enter_async_context(opened))
    match declaration.config:
        case SandboxConfig() as config:
            sandbox = sandbox_service(sandbox_endpoint(config, environment), config)
            prepare = runnable if declaration.kind is ToolKind.RETOOL else None
            declared = _declared(declaration)
            return SandboxTool(await stack.enter_async_context(sandbox), config, declared, prepare)
        case SearchConfig() as config:
            target = search_endpoint(config, environment)
            search = await stack.enter_async_context(search_service(target, config))
            return SearchTool(search, config, own=target.own)
        case HttpConfig() as config:
            endpoint = http_service(plain_endpoint(config.url, environment), config)
            service = await stack.enter_async_context(endpoint)
            return HttpTool(service, idempotent=config.idempotent)
        case CallableConfig() as config:
            where = f"{declaration.param}.config.callable"
            check_function_allowed(config.callable, environment.allowed_callables, where)
            processes = FunctionPool(
                config.callable, config.num_workers, environment.callables_folder
            )
            return FunctionTool(await stack.enter_async_context(processes), config)
        case _ as other:
            raise TypeError(f"no tool has a {type(other).__name__}")


def _declared(declaration: Declaration) -> JsonObject:
    """The arguments that a schema declares."""
    assert declaration.schema is not None  # noqa: S101 - only servers tell theirs
    return dict(parameters_of(declaration.schema).get("properties", {}))
