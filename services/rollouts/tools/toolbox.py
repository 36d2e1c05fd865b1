"""The toolbox of a job: opens its tools and dispatches calls."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.inference.clients.retries import Retries
from services.parsing.foreign_json import storable_text
from services.rollouts.tools.base import (
    Episode,
    EpisodeFailed,
    EpisodeStart,
    SessionServer,
    ToolBackend,
    Toolbox,
    ToolError,
    ToolReply,
    ToolResult,
    ToolSession,
    bad_arguments,
)
from services.rollouts.tools.configuration import McpConfig
from services.rollouts.tools.declaration import declarations, name_of
from services.rollouts.tools.mcp_calls import schema_of
from services.rollouts.tools.opening import SERVERS, OpenDeclaration, OpenTool, open_declaration

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
            await open_declaration(declaration, environment, stack)
            for declaration in declarations(tools, "tools")
        ]
        yield _Tools(opened, repeat_seconds)


Sessions = Mapping[SessionServer, ToolSession]


class _Tools:
    """The open tools by name."""

    def __init__(self, opened: Sequence[OpenDeclaration], repeat_seconds: float) -> None:
        self._opened = opened
        self._repeat_seconds = repeat_seconds
        self._tools: list[OpenTool] = []
        for each in opened:
            if each.declaration.schema is not None:
                name = each.declaration.name
                served = getattr(each.declaration.config, "tool", None) or name
                self._tools.append(each.tool(each.declaration.schema, served))

    @property
    def schemas(self) -> tuple[JsonObject, ...]:
        """See `Toolbox.schemas`."""
        return tuple(tool.schema for tool in self._tools)

    def offered(self, source: str | None) -> tuple[JsonObject, ...]:
        """See `Toolbox.offered`."""
        return tuple(tool.schema for tool in self._tools if tool.source.serves(source))

    @asynccontextmanager
    async def episode(self, start: EpisodeStart) -> AsyncIterator[Episode]:
        """See `Toolbox.episode`."""
        async with AsyncExitStack() as stack:
            sessions: dict[SessionServer, ToolSession] = {}
            for each in self._opened:
                if each.sessions is None or not each.serves(start.source):
                    continue
                try:
                    session = await stack.enter_async_context(each.sessions.session(start))
                except ToolError as fault:
                    cause = fault.cause or InfrastructureCause.SERVICE_ERROR
                    message = storable_text(fault.error)
                    raise EpisodeFailed(each.declaration.name, cause, message) from fault
                sessions[each.sessions] = session
            offered = [tool for tool in self._tools if tool.source.serves(start.source)]
            yield _Episode(self, offered, sessions)

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """See `Toolbox.call`."""
        return await self.call_one(self._tools, {}, name, arguments)

    async def call_one(
        self,
        offered: Sequence[OpenTool],
        sessions: Sessions,
        name: str,
        arguments: JsonObject | None,
    ) -> ToolReply:
        """Call one of the offered tools with a rollout's sessions; raises only
        ``CancelledError``."""
        begun = time.monotonic()
        failures = _Failures()
        try:
            result = await self._run(offered, sessions, name, arguments, failures)
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
        tool = _named(self._tools, name)
        assert tool is not None  # noqa: S101 - probed are the names of declarations
        try:
            if tool.source.sessions is not None:
                await tool.source.sessions.probe(tool.served_name)
            elif (backend := tool.backend(None)) is not None:
                await backend.probe()
        except ToolError as fault:
            # A refusal is the settings' fault as well: no model has chosen these arguments.
            return storable_text(fault.error)
        return None

    async def discover(self, position: int) -> str | None:
        """See `Toolbox.discover`."""
        from services.rollouts.tools.schema import checked_schema  # noqa: PLC0415 - loads jsonschema

        source = self._opened[position]
        assert isinstance(source.opened, SERVERS)  # noqa: S101 - others declare their schemas
        config = source.declaration.config
        wanted = config.tool if isinstance(config, McpConfig) else None
        try:
            tools = [
                tool for tool in await source.opened.listed() if wanted in (None, tool["name"])
            ]
            schemas = [checked_schema(schema_of(tool), source.declaration.param) for tool in tools]
        except ToolError as fault:
            return storable_text(fault.error)
        except InvalidRequest as error:
            return f"a tool of the server has a schema that cannot be used: {error.message}"
        if not schemas:
            return f"the server has no tool {wanted!r}" if wanted else "the server has no tools"
        others = [tool for tool in self._tools if tool.source is not source]
        for name in map(name_of, schemas):
            if any(name_of(tool.schema) == name and tool.source.meets(source) for tool in others):
                return f"{name!r} is already the name of another tool"
        self._tools = [*others, *(source.tool(schema, name_of(schema)) for schema in schemas)]
        return None

    async def _run(
        self,
        offered: Sequence[OpenTool],
        sessions: Sessions,
        name: str,
        arguments: JsonObject | None,
        failures: "_Failures",
    ) -> ToolResult:
        tool = _named(offered, name)
        if tool is None:
            known = ", ".join(name_of(each.schema) for each in offered) or "none"
            text = f"Error: there is no tool {name[:100]!r}; the tools are: {known}."
            raise ToolError(CallOutcome.UNKNOWN_TOOL, text, f"no tool is named {name[:100]!r}", 0)
        if arguments is None:
            raise bad_arguments("the arguments are not a JSON object.")
        if tool.check is not None:
            tool.check(arguments)
        server = tool.source.sessions
        backend = tool.backend(None if server is None else sessions.get(server))
        if backend is None:
            message = f"{name!r} has sessions, and is called within a rollout only"
            raise ToolError(CallOutcome.FAILED, "Error: the tool failed.", message, 0)
        if server is not None:
            return await self._repeated(backend, arguments, failures)
        with failures.counted():
            await _acquire_slot(tool.source.slots)
        try:
            return await self._repeated(backend, arguments, failures)
        finally:
            tool.source.slots.release()

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


class _Episode:
    """The tools of one rollout."""

    def __init__(self, tools: _Tools, offered: Sequence[OpenTool], sessions: Sessions) -> None:
        self._tools = tools
        self._offered = offered
        self._sessions = sessions

    @property
    def opening(self) -> str | None:
        """See `Episode.opening`."""
        shown = [each.opening for each in self._sessions.values() if each.opening]
        return "\n\n".join(shown) or None

    @property
    def environments(self) -> Sequence[EnvironmentRecord]:
        """See `Episode.environments`."""
        return [each.environment for each in self._sessions.values() if each.environment]

    async def call(self, name: str, arguments: JsonObject | None) -> ToolReply:
        """See `Episode.call`."""
        return await self._tools.call_one(self._offered, self._sessions, name, arguments)


def _named(tools: Sequence[OpenTool], name: str) -> OpenTool | None:
    return next((tool for tool in tools if name_of(tool.schema) == name), None)


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
