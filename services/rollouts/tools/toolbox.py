"""The toolbox of a job: opens its tools and dispatches calls."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from services.contracts.base import JsonObject
from services.contracts.foreign_json import storable_text
from services.contracts.infrastructure import InfrastructureCause
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import FunctionPool, check_function_allowed
from services.inference.clients.retries import Retries
from services.rollouts.tools.base import (
    UNAVAILABLE,
    ToolBackend,
    Toolbox,
    ToolError,
    ToolReply,
    ToolResult,
    bad_arguments,
)
from services.rollouts.tools.configuration import (
    CallableConfig,
    HttpConfig,
    McpConfig,
    SandboxConfig,
    SearchConfig,
    ToolKind,
)
from services.rollouts.tools.declaration import Declaration, declarations
from services.rollouts.tools.endpoints import plain_endpoint, sandbox_endpoint, search_endpoint
from services.rollouts.tools.families import ToolFamily
from services.rollouts.tools.mcp import McpServer, McpTool
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
REPEAT_SECONDS = 60.0
"""How long an idempotent call is repeated after the infrastructure first failed it."""
_WAITS = Retries(attempts=1, deadline_seconds=REPEAT_SECONDS, first_wait_seconds=1.0)


@asynccontextmanager
async def open_toolbox(
    tools: Sequence[Tool],
    environment: OperatorEnvironment,
    repeat_seconds: float = REPEAT_SECONDS,
) -> AsyncIterator[Toolbox]:
    """The tools, with connections and processes scoped to the block. Nothing is contacted before a
    call. A call that the infrastructure failed is repeated for ``repeat_seconds`` if it is
    idempotent. Raises `InvalidRequest` for an unusable tool and `PermissionDenied` for a function
    that the operator has not allowed.
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
        yield _Tools(opened, repeat_seconds)


@dataclass(frozen=True)
class _OpenTool:
    declaration: Declaration
    backend: ToolBackend
    slots: asyncio.Semaphore
    check: Callable[[JsonObject], None] | None


class _Tools:
    """The open tools by name."""

    def __init__(self, opened: Sequence[_OpenTool], repeat_seconds: float) -> None:
        self._tools = {tool.declaration.name: tool for tool in opened}
        self._repeat_seconds = repeat_seconds

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """The schemas shown to the model."""
        return tuple(tool.declaration.schema for tool in self._tools.values())

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """Call a tool; raises only ``CancelledError``."""
        begun = time.monotonic()
        failures = _Failures()
        try:
            result = await self._run(name, arguments, failures)
        except ToolError as fault:
            message = storable_text(fault.error)
            attempts = failures.attempts + fault.attempts
            failed = _reply(fault.outcome, fault.text, message, attempts, begun)
            return replace(failed, run=fault.run, cause=fault.cause, failures=failures.count)
        except Exception as error:
            # A bug of ours fails this call only; the log has the traceback.
            logger.exception("tool %.100r", name)
            text, message = "Error: the tool failed.", f"internal error: {type(error).__name__}"
            failed = _reply(CallOutcome.FAILED, text, message, failures.attempts, begun)
            cause = InfrastructureCause.INTERNAL_ERROR
            return replace(failed, cause=cause, failures=failures.count + 1)
        attempts = failures.attempts + result.attempts
        reply = _reply(CallOutcome.ANSWERED, result.text, None, attempts, begun)
        return replace(reply, run=result.run, failures=failures.count)

    async def probe(self, name: str) -> str | None:
        """See `Toolbox.probe`."""
        try:
            await self._tools[name].backend.probe()
        except ToolError as fault:
            return storable_text(fault.error) if fault.outcome in UNAVAILABLE else None
        return None

    async def _run(
        self, name: str, arguments: JsonObject | None, failures: "_Failures"
    ) -> ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            text = f"Error: there is no tool {name[:100]!r}; the tools are: {known}."
            raise ToolError(CallOutcome.UNKNOWN_TOOL, text, f"no tool is named {name[:100]!r}", 0)
        if arguments is None:
            raise bad_arguments("the arguments are not a JSON object.")
        if tool.check is not None:
            tool.check(arguments)
        with failures.counted():
            await _acquire_slot(tool.slots)
        try:
            return await self._repeated(tool.backend, arguments, failures)
        finally:
            tool.slots.release()

    async def _repeated(
        self, backend: ToolBackend, arguments: JsonObject, failures: "_Failures"
    ) -> ToolResult:
        """Call a tool until the infrastructure does not fail it, or its time is spent."""
        deadline: float | None = None
        while True:
            try:
                with failures.counted():
                    return await backend.run(arguments)
            except ToolError as fault:
                if fault.cause is None or not (backend.idempotent and fault.cause.may_pass):
                    raise
                now, wait = time.monotonic(), _WAITS.wait(failures.count)
                deadline = now + self._repeat_seconds if deadline is None else deadline
                if now + wait > deadline:
                    raise
                failures.attempts += fault.attempts
            await asyncio.sleep(wait)


@dataclass
class _Failures:
    """How often the infrastructure failed one call, and the requests before its last repeat."""

    count: int = 0
    attempts: int = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a failure within the block."""
        try:
            yield
        except ToolError as fault:
            self.count += fault.cause is not None
            raise


async def _acquire_slot(slots: asyncio.Semaphore) -> None:
    try:
        async with asyncio.timeout(SLOT_TIMEOUT):
            await slots.acquire()
    except TimeoutError:
        text = "Error: the tool was too busy."
        error = f"no slot of the tool was free within {SLOT_TIMEOUT:.0f} s"
        cause = InfrastructureCause.OVERLOADED
        raise ToolError(CallOutcome.TIMED_OUT, text, error, 0, None, cause) from None


def _reply(
    outcome: CallOutcome, text: str, error: str | None, attempts: int, begun: float
) -> ToolReply:
    return ToolReply(
        outcome=outcome,
        text=storable_text(text[:LONGEST_TEXT]),
        error=error,
        attempts=attempts,
        seconds=time.monotonic() - begun,
    )


def _check(declaration: Declaration) -> Callable[[JsonObject], None] | None:
    """Kinds with fixed arguments check them on use, unless their schema is strict."""
    strict = declaration.schema["function"].get("strict")
    if strict or declaration.kind not in {ToolKind.SANDBOX, ToolKind.RETOOL, ToolKind.SEARCH}:
        return argument_check(declaration.parameters)
    return None


async def _backend(
    declaration: Declaration, environment: OperatorEnvironment, stack: AsyncExitStack
) -> ToolBackend:
    if isinstance(declaration.kind, ToolFamily):
        opened = declaration.kind.open(declaration.config, environment)
        return await stack.enter_async_context(opened)
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
            service = await stack.enter_async_context(endpoint)
            return HttpTool(service, idempotent=config.idempotent)
        case McpConfig() as config:
            server = McpServer(plain_endpoint(config.url, environment), config)
            opened_server = await stack.enter_async_context(server)
            name = config.tool or declaration.name
            return McpTool(opened_server, name, idempotent=config.idempotent)
        case CallableConfig() as config:
            where = f"{declaration.param}.config.callable"
            check_function_allowed(config.callable, environment.allowed_callables, where)
            processes = FunctionPool(
                config.callable, config.num_workers, environment.callables_folder
            )
            return FunctionTool(await stack.enter_async_context(processes), config)
        case _ as other:
            raise TypeError(f"no tool has a {type(other).__name__}")
