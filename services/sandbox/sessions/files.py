"""/v1/sessions/{session_id}/files."""

import errno
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
    TemperError,
    Unprocessable,
)
from services.contracts.sandbox.sessions import SessionFile
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.sandbox.context import Sandbox
from services.sandbox.guest.frames import Header
from services.sandbox.sessions.driver import FileAnswer, FolderEntry
from services.sandbox.sessions.notebook import Notebook
from services.sandbox.wire import DOWNLOAD, FILE_CONTENT, clean_path, file_response

router = APIRouter(
    prefix="/v1/sessions/{session_id}/files",
    tags=["session-files"],
    responses=documented_errors(AuthenticationFailed, NotFound, Conflict),
)

FilePath = Annotated[str, Path(description="Below the work directory.")]

_UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": FILE_CONTENT}}


@router.get("", summary="List files", responses=documented_errors(InvalidRequest))
async def list_all(
    sandbox: Sandbox,
    principal: ToolPrincipal,
    session_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[SessionFile]:
    """List the files below the work directory, by path."""
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
    """Create or replace a file with the request's body; also while a cell runs."""
    session = sandbox.sessions.get(principal, session_id)
    clean = clean_path(path, "path")
    content = await request.body()
    with session.used() as notebook:
        return await write_file(notebook, clean, content)


@router.get(
    "/{path:path}",
    summary="Download a file",
    response_class=Response,
    responses=DOWNLOAD | documented_errors(PayloadTooLarge, Unprocessable),
)
async def download(
    sandbox: Sandbox, principal: ToolPrincipal, session_id: str, path: FilePath
) -> Response:
    """Download a file; also while a cell runs."""
    session = sandbox.sessions.get(principal, session_id)
    clean = clean_path(path, "path")
    with session.used() as notebook:
        limit = sandbox.settings.sandbox_max_body_bytes
        return file_response(await read_file(notebook, clean, limit))


async def write_file(notebook: Notebook, path: str, content: bytes) -> SessionFile:
    """Create or replace a file.

    Like the other functions, raises `NotebookEnded`, and the matching `TemperError` if the path is
    not a regular file or the disk is full.
    """
    answer, _ = await _ask(notebook, {"type": "write", "path": path}, content)
    return next(map(_view, answer.entries), SessionFile(id=path, bytes=0, modified_at=0))


async def read_file(notebook: Notebook, path: str, max_bytes: int) -> bytes:
    """The content of a file of at most ``max_bytes``."""
    _, content = await _ask(notebook, {"type": "read", "path": path, "max_bytes": max_bytes})
    return content


async def list_files(
    notebook: Notebook, after: str | None, limit: int
) -> tuple[list[SessionFile], bool]:
    """The next files after ``after`` by path, and whether there are more."""
    header = {"type": "list", "after": after or "", "limit": limit + 1}
    answer, _ = await _ask(notebook, header)
    return [_view(entry) for entry in answer.entries[:limit]], len(answer.entries) > limit


async def _ask(notebook: Notebook, header: Header, body: bytes = b"") -> tuple[FileAnswer, bytes]:
    answer, content = await notebook.ask(header, body)
    if answer.error is not None:
        raise _refusal(answer.error, str(header.get("path", ""))[:200])
    return answer, content


def _view(entry: FolderEntry) -> SessionFile:
    return SessionFile(id=entry.path, bytes=entry.bytes, modified_at=entry.modified)


def _refusal(number: int, path: str) -> TemperError:
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return NotFound(f"no such file: {path!r}", param="path", code="file_not_found")
        case errno.EFBIG:
            return PayloadTooLarge(f"{path!r} exceeds the size limit of a file", param="path")
        case errno.ENOSPC | errno.EDQUOT:
            return StorageFull(f"no space left for {path!r}", param="path")
    return Conflict(
        f"{path!r} is not a regular file, or leads through a link", param="path", code="no_file"
    )
