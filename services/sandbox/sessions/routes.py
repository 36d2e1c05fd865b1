"""/v1/sessions."""

from fastapi import APIRouter, Request, Response

from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    Unavailable,
    Unprocessable,
)
from services.contracts.sandbox.sessions import CellResult, CreateSession, ExecuteCell, Session
from services.core.web.auth import ToolPrincipal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.core.web.paging import After, Limit, page_of
from services.sandbox.admission import QueueFull
from services.sandbox.context import Sandbox
from services.sandbox.event_stream import Events, WorkEventStream, described_events
from services.sandbox.examples import CREATE, EXECUTE

router = APIRouter(
    prefix="/v1/sessions", tags=["sessions"], responses=documented_errors(AuthenticationFailed)
)

_EXECUTION = documented_errors(NotFound, Conflict, PayloadTooLarge, Unprocessable, QueueFull)
_STREAM = described_events(
    "Output, displays and errors as JSON; the last event is `result`, the response of /execute.",
    *("stdout", "stderr", "display", "error", "result"),
)


@router.post(
    "",
    summary="Create a session",
    openapi_extra=documented_body(CreateSession, CREATE),
    response_class=Response,
    responses=documented_errors(PayloadTooLarge, Unprocessable, Unavailable)
    | {200: {"model": Session}},
)
async def create(request: Request, sandbox: Sandbox, principal: ToolPrincipal) -> Response:
    """Start a Python kernel that keeps variables and files between cells."""
    body = await read_body(request, CreateSession)
    return await answer_to(request, sandbox.sessions.create(principal, body))


@router.get("", summary="List sessions", responses=documented_errors(InvalidRequest, NotFound))
async def list_all(
    sandbox: Sandbox, principal: ToolPrincipal, after: After = None, limit: Limit = DEFAULT_LIMIT
) -> Page[Session]:
    """List your sessions, newest first."""
    views = [session.view() for session in sandbox.sessions.of(principal)]
    if after is not None:
        behind = [view.id for view in views].index(sandbox.sessions.get(principal, after).id)
        views = views[behind + 1 :]
    return page_of(views[:limit], len(views) > limit)


@router.get("/{session_id}", summary="Show a session", responses=documented_errors(NotFound))
async def get(sandbox: Sandbox, principal: ToolPrincipal, session_id: str) -> Session:
    """Show one of your sessions."""
    return sandbox.sessions.get(principal, session_id).view()


@router.delete("/{session_id}", summary="End a session", responses=documented_errors(NotFound))
async def delete(sandbox: Sandbox, principal: ToolPrincipal, session_id: str) -> Deleted:
    """End a session, kill everything it runs, and delete its files."""
    await sandbox.sessions.delete(principal, session_id)
    return Deleted(id=session_id, object="session")


@router.post(
    "/{session_id}/execute",
    summary="Execute a cell",
    openapi_extra=documented_body(ExecuteCell, EXECUTE),
    response_class=Response,
    responses=_EXECUTION | {200: {"model": CellResult}},
)
async def execute(
    request: Request, sandbox: Sandbox, principal: ToolPrincipal, session_id: str
) -> Response:
    """Run a cell; one at a time per session. It is interrupted if you disconnect."""
    cell = await read_body(request, ExecuteCell)
    return await answer_to(request, sandbox.sessions.execute(principal, session_id, cell))


@router.post(
    "/{session_id}/execute/stream",
    summary="Execute a cell and follow its output",
    openapi_extra=documented_body(ExecuteCell, EXECUTE),
    response_class=Response,
    responses=_EXECUTION | _STREAM,
)
async def stream(
    request: Request, sandbox: Sandbox, principal: ToolPrincipal, session_id: str
) -> WorkEventStream:
    """Like /execute, but stream the output as server-sent events."""
    cell = await read_body(request, ExecuteCell)
    sessions = sandbox.sessions

    async def work(events: Events) -> CellResult:
        return await sessions.execute(principal, session_id, cell, events.emit, events.begin)

    return WorkEventStream(work, Events())


@router.post(
    "/{session_id}/interrupt",
    summary="Interrupt the running cell",
    responses=documented_errors(NotFound, Conflict),
)
async def interrupt(sandbox: Sandbox, principal: ToolPrincipal, session_id: str) -> Session:
    """Raise KeyboardInterrupt in the running cell, if there is one."""
    session = sandbox.sessions.get(principal, session_id)
    with session.used() as notebook:
        await notebook.interrupt()
    return session.view()


@router.post(
    "/{session_id}/restart",
    summary="Replace the kernel",
    responses=documented_errors(NotFound, Conflict),
)
async def restart(sandbox: Sandbox, principal: ToolPrincipal, session_id: str) -> Session:
    """Kill the kernel and start another: variables are lost, files are kept."""
    session = sandbox.sessions.get(principal, session_id)
    with session.used() as notebook:
        await notebook.restart()
    return session.view()
