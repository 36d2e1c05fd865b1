"""The toolbox of a job: opens its tools and dispatches calls."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from services.contracts.base import JsonObject
from services.contracts.multi_turn import Tool
from services.contracts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import FunctionPool, check_function_allowed
from services.rollouts.tools.base import (
    UNAVAILABLE,
    ToolBackend,
    Toolbox,
    ToolError,
    ToolReply,
    ToolResult,
    bad_arguments,
    sanitize,
)
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    SandboxConfig,
    SearchConfig,
    ToolKind,
)
from services.rollouts.tools.declaration import Declaration, declarations
from services.rollouts.tools.endpoints import plain_endpoint, sandbox_endpoint, search_endpoint
from services.rollouts.tools.retool import runnable
from services.rollouts.tools.sandbox import SandboxTool, sandbox_service
from services.rollouts.tools.schema import argument_check
from services.rollouts.tools.search import SearchTool, search_service
from services.rollouts.tools.user_tools import FunctionTool, HttpTool, http_service

logger = logging.getLogger(__name__)

LONGEST_TEXT = 8 * 2**20
"""Characters."""
SLOT_TIMEOUT = 900.0
"""Maximum seconds that a call waits for a free slot of its tool."""


@asynccontextmanager
async def open_toolbox(
    tools: Sequence[Tool], environment: OperatorEnvironment
) -> AsyncIterator[Toolbox]:
    """The tools, with connections and processes scoped to the block. Nothing is contacted before a
    call. Raises `InvalidRequest` for an unusable tool and `PermissionDenied` for a function that
    the operator has not allowed.
    """
    async with AsyncExitStack() as stack:
        opened = [
            _OpenTool(
                declaration,
                await _backend(declaration, environment, stack),
                asyncio.Semaphore(declaration.config.max_in_flight),
                _check(declaration),
            )
            for declaration in declarations(tools, "tools")
        ]
        yield _Tools(opened)


@dataclass(frozen=True)
class _OpenTool:
    declaration: Declaration
    backend: ToolBackend
    slots: asyncio.Semaphore
    check: Callable[[JsonObject], None] | None


class _Tools:
    """The open tools by name."""

    def __init__(self, opened: Sequence[_OpenTool]) -> None:
        self._tools = {tool.declaration.name: tool for tool in opened}

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """The schemas shown to the model."""
        return tuple(tool.declaration.schema for tool in self._tools.values())

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool; raises only ``CancelledError``."""
        begun = time.monotonic()
        try:
            result = await self._run(name, arguments)
        except ToolError as fault:
            message = sanitize(fault.error)
            failed = _reply(fault.outcome, fault.text, message, fault.attempts, begun)
            return replace(failed, run=fault.run)
        except Exception as error:
            # A bug of ours fails this call only; the log has the traceback.
            logger.exception("tool %.100r", name)
            text, message = "Error: the tool failed.", f"internal error: {type(error).__name__}"
            return _reply(CallOutcome.FAILED, text, message, 0, begun)
        reply = _reply(CallOutcome.ANSWERED, result.text, None, result.attempts, begun)
        return replace(reply, run=result.run)

    async def probe(self, name: str) -> str | None:
        """See `Toolbox.probe`."""
        try:
            await self._tools[name].backend.probe()
        except ToolError as fault:
            return sanitize(fault.error) if fault.outcome in UNAVAILABLE else None
        return None

    async def _run(self, name: str, arguments: JsonObject | None) -> ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            text = f"Error: there is no tool {name[:100]!r}; the tools are: {known}."
            raise ToolError(CallOutcome.UNKNOWN_TOOL, text, f"no tool is named {name[:100]!r}", 0)
        if arguments is None:
            raise bad_arguments("the arguments are not a JSON object.")
        if tool.check is not None:
            tool.check(arguments)
        await _acquire_slot(tool.slots)
        try:
            return await tool.backend.run(arguments)
        finally:
            tool.slots.release()


async def _acquire_slot(slots: asyncio.Semaphore) -> None:
    try:
        async with asyncio.timeout(SLOT_TIMEOUT):
            await slots.acquire()
    except TimeoutError:
        text = "Error: the tool was too busy."
        error = f"no slot of the tool was free within {SLOT_TIMEOUT:.0f} s"
        raise ToolError(CallOutcome.TIMED_OUT, text, error, 0) from None


def _reply(
    outcome: CallOutcome, text: str, error: str | None, attempts: int, begun: float
) -> ToolReply:
    return ToolReply(
        outcome=outcome,
        text=sanitize(text[:LONGEST_TEXT]),
        error=error,
        attempts=attempts,
        seconds=time.monotonic() - begun,
    )


def _check(declaration: Declaration) -> Callable[[JsonObject], None] | None:
    """Kinds with fixed arguments check them on use, unless their schema is strict."""
    strict = declaration.schema["function"].get("strict")
    if strict or declaration.kind in {ToolKind.HTTP, ToolKind.CALLABLE}:
        return argument_check(declaration.parameters)
    return None


async def _backend(
    declaration: Declaration, environment: OperatorEnvironment, stack: AsyncExitStack
) -> ToolBackend:
    match declaration.config:
        case SandboxConfig() as config:
            sandbox = sandbox_service(sandbox_endpoint(config, environment), config)
            prepare = runnable if declaration.kind is ToolKind.RETOOL else None
            declared = declaration.parameters.get("properties", {})
            return SandboxTool(await stack.enter_async_context(sandbox), config, declared, prepare)
        case SearchConfig() as config:
            target = search_endpoint(config, environment)
            search = await stack.enter_async_context(search_service(target, config))
            return SearchTool(search, config, own=target.own)
        case HttpConfig() as config:
            endpoint = http_service(plain_endpoint(config.url, environment), config)
            return HttpTool(await stack.enter_async_context(endpoint))
        case CallableConfig() as config:
            where = f"{declaration.param}.config.callable"
            check_function_allowed(config.callable, environment.allowed_callables, where)
            processes = FunctionPool(
                config.callable, config.num_workers, environment.callables_folder
            )
            return FunctionTool(await stack.enter_async_context(processes), config)
        case _ as other:
            raise TypeError(f"no tool has a {type(other).__name__}")
