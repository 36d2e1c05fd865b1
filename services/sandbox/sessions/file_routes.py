"""/v1/sessions/{session_id}/files."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StorageFull,
    Unprocessable,
)
from services.contracts.sandbox_sessions import SessionFile
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.sandbox.context import Sandbox
from services.sandbox.paths import clean_path
from services.sandbox.sessions.files import list_files, read_file, write_file

router = APIRouter(
    prefix="/v1/sessions/{session_id}/files",
    tags=["session-files"],
    responses=documented_errors(AuthenticationFailed, NotFound, Conflict),
)

FilePath = Annotated[str, Path(description="Below the work directory.")]

_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": _BYTES}}
_DOWNLOAD: dict[int | str, dict[str, Any]] = {200: {"content": _BYTES}}


@router.get("", summary="List files", responses=documented_errors(InvalidRequest))
async def list_all(
    sandbox: Sandbox,
    principal: ToolPrincipal,
    session_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[SessionFile]:
    """List the files of the work directory and the folders in it, by path."""
    with sandbox.sessions.get(principal, session_id).used() as notebook:
        files, has_more = await list_files(notebook, after, limit)
    return page_of(files, has_more)


@router.put(
    "/{path:path}",
    summary="Upload a file",
    openapi_extra=_UPLOAD,
    responses=documented_errors(PayloadTooLarge, Unprocessable, StorageFull),
)
async def upload(
    request: Request, sandbox: Sandbox, principal: ToolPrincipal, session_id: str, path: FilePath
) -> SessionFile:
    """Make or replace a file with the bytes of the body; also while a cell runs."""
    session = sandbox.sessions.get(principal, session_id)
    clean = clean_path(path, "path")
    content = await request.body()
    with session.used() as notebook:
        return await write_file(notebook, clean, content)


@router.get(
    "/{path:path}",
    summary="Download a file",
    response_class=Response,
    responses=_DOWNLOAD | documented_errors(PayloadTooLarge, Unprocessable),
)
async def download(
    sandbox: Sandbox, principal: ToolPrincipal, session_id: str, path: FilePath
) -> Response:
    """Send a file's content; also while a cell runs."""
    session = sandbox.sessions.get(principal, session_id)
    clean = clean_path(path, "path")
    with session.used() as notebook:
        content = await read_file(notebook, clean, sandbox.settings.sandbox_max_body_bytes)
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"x-content-type-options": "nosniff"},
    )
