"""The address of a tool's URL, the key sent there, and whether it is allowed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import AnyHttpUrl

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.origins import GATEWAY_ORIGINS, origin_of
from services.contracts.rollouts.multi_turn import Tool
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import check_function_allowed
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    McpConfig,
    OpenEnvConfig,
    SandboxConfig,
    SearchConfig,
)
from services.rollouts.tools.declaration import Declaration, declarations

RUN_CODE = "/run_code"
RETRIEVE = "/retrieve"


@dataclass(frozen=True)
class ToolEndpoint:
    """An address and the key sent to it; ``own`` marks the operator's services."""

    url: str
    api_key: str | None = field(repr=False)
    own: bool = False


def sandbox_endpoint(config: SandboxConfig, environment: OperatorEnvironment) -> ToolEndpoint:
    """The sandbox that runs a tool's code."""
    url = config.sandbox_fusion_url
    if url is None or _is_own(url, RUN_CODE, environment.gateway_origins):
        return ToolEndpoint(
            environment.sandbox_url + RUN_CODE, environment.sandbox_api_key, own=True
        )
    return plain_endpoint(url, environment)


def search_endpoint(config: SearchConfig, environment: OperatorEnvironment) -> ToolEndpoint:
    """The retrieval service that a tool queries."""
    url = config.retrieval_service_url
    if url is None or _is_own(url, RETRIEVE, environment.gateway_origins):
        return ToolEndpoint(
            environment.retrieval_url + RETRIEVE, environment.retrieval_api_key, own=True
        )
    return plain_endpoint(url, environment)


def plain_endpoint(url: AnyHttpUrl, environment: OperatorEnvironment) -> ToolEndpoint:
    """The address as given, with the operator's key for its origin."""
    return ToolEndpoint(str(url), environment.endpoint_keys.get(origin_of(url)))


def check_endpoint(
    declaration: Declaration, allowed_origins: Collection[str], gateway_origins: Collection[str]
) -> None:
    """Raise `InvalidRequest` or `PermissionDenied` for a URL that is not allowed."""
    found = _url(declaration)
    if found is None:
        return
    name, url, own_path = found
    param = f"{declaration.param}.config.{name}"
    if url.username or url.password or url.fragment:
        raise InvalidRequest("must be a plain URL: its key is set by the operator", param=param)
    if own_path is not None and _is_own(url, own_path, gateway_origins):
        return
    if origin_of(url) not in allowed_origins:
        raise PermissionDenied(
            f"{origin_of(url)} is not among the operator's TEMPER_ALLOWED_ENDPOINTS", param=param
        )


def _url(declaration: Declaration) -> tuple[str, AnyHttpUrl, str | None] | None:
    """The field with a tool's URL, the URL, and its path on the gateway."""
    config = declaration.config
    if isinstance(config, SandboxConfig) and config.sandbox_fusion_url is not None:
        return "sandbox_fusion_url", config.sandbox_fusion_url, RUN_CODE
    if isinstance(config, SearchConfig) and config.retrieval_service_url is not None:
        return "retrieval_service_url", config.retrieval_service_url, RETRIEVE
    if isinstance(config, HttpConfig | McpConfig | OpenEnvConfig) and config.url is not None:
        return "url", config.url, None
    return None


def _is_own(url: AnyHttpUrl, path: str, gateway_origins: Collection[str]) -> bool:
    return url.path == path and not url.query and origin_of(url) in gateway_origins


def check_tools(
    tools: Sequence[Tool],
    allowed_origins: Collection[str],
    allowed_callables: Collection[str],
    mcp_commands: Collection[str] = (),
    *,
    gateway_origins: Collection[str] = GATEWAY_ORIGINS,
    param: str = "tools",
) -> None:
    """Raise `InvalidRequest` for an unusable tool and `PermissionDenied` for one that the
    operator's settings forbid; ``param`` is like ``tools[1].config.sandbox_fusion_url``.

    Contacts and imports nothing. ``gateway_origins`` with /run_code or /retrieve mean the
    operator's own services and need no permission.
    """
    for declaration in declarations(tools, param):
        check_endpoint(declaration, allowed_origins, gateway_origins)
        if isinstance(declaration.config, CallableConfig):
            where = f"{declaration.param}.config.callable"
            check_function_allowed(declaration.config.callable, allowed_callables, where)
        if isinstance(declaration.config, McpConfig) and declaration.config.command is not None:
            where = f"{declaration.param}.config.command"
            check_command(declaration.config.command, mcp_commands, where)


def check_command(name: str, allowed: Collection[str], param: str) -> None:
    """Raise `PermissionDenied` for the name of an MCP server that the operator has not given."""
    if name not in allowed:
        message = f"{name!r} is not among the operator's TEMPER_MCP_COMMANDS"
        raise PermissionDenied(message, param=param)
