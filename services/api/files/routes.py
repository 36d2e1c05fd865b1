"""/v1/files."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from services.api.context import Gateway
from services.api.downloads import DOWNLOAD, download
from services.api.files.removal import remove_content, remove_file
from services.api.files.service import add_file, file_view, list_files
from services.api.files.upload import receive_upload
from services.api.idempotency import Creation
from services.api.jobs.artifacts import find_result_file, result_file_view
from services.contracts.base import Deleted, Page
from services.contracts.data.files import File, FilePurpose, UploadedContent
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StorageFull,
)
from services.core.ids import new_id
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, page_of
from services.models.registry import get_file_row

router = APIRouter(
    prefix="/v1/files", tags=["files"], responses=documented_errors(AuthenticationFailed)
)

MAX_FILES_LIMIT = 10_000

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": FilePurpose.uploads()},
                        # In forms, an empty field counts as missing.
                        "expires_after[anchor]": {"type": "string", "enum": ["created_at", ""]},
                        "expires_after[seconds]": {
                            "anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 0}]
                        },
                    },
                }
            }
        },
    }
}


@router.post(
    "",
    summary="Upload a file",
    openapi_extra=_FORM,
    responses=documented_errors(InvalidRequest, Conflict, PayloadTooLarge, StorageFull),
)
async def upload(request: Request, gateway: Gateway, creation: Creation) -> File:
    """Upload a file of any size; it is streamed to disk."""
    file_id = new_id("file")
    path = gateway.artifacts.uploads() / file_id
    received = await receive_upload(request, path, gateway.settings.max_upload_bytes)
    content = UploadedContent(
        filename=received.filename,
        purpose=received.purpose,
        sha256=received.sha256,
        expires_after=received.expires_after,
    )
    try:
        file = await run_in_threadpool(
            creation.create,
            "files",
            content,
            File,
            lambda session: add_file(session, gateway.artifacts, received),
        )
    finally:
        path.unlink(missing_ok=True)
    if file.id != file_id:  # a retry, possibly concurrent, gets the first file
        gateway.artifacts.file(file_id).unlink(missing_ok=True)
    return file


@router.get("", summary="List files", responses=documented_errors(InvalidRequest, NotFound))
def list_all(
    gateway: Gateway,
    _principal: Principal,
    purpose: FilePurpose | None = None,
    text: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Only files with this in their id or name, ignoring the case of ASCII "
            "letters.",
        ),
    ] = None,
    order: Literal["asc", "desc"] = "desc",
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=MAX_FILES_LIMIT)] = MAX_FILES_LIMIT,
) -> Page[File]:
    """List files."""
    with gateway.database.read() as session:
        files, has_more = list_files(
            session, purpose, text, after=after, limit=limit, newest_first=order == "desc"
        )
    return page_of(files, has_more)


@router.get("/{file_id}", summary="Show a file", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, file_id: str) -> File:
    """Show one file, which may be a result file of a job."""
    if (found := find_result_file(gateway, file_id)) is not None:
        return result_file_view(file_id, found)
    with gateway.database.read() as session:
        return file_view(get_file_row(session, file_id))


@router.get(
    "/{file_id}/content",
    summary="Download a file",
    response_class=FileResponse,
    responses=DOWNLOAD | documented_errors(NotFound),
)
def content(gateway: Gateway, _principal: Principal, file_id: str) -> FileResponse:
    """Download a file's content."""
    if (found := find_result_file(gateway, file_id)) is not None:
        return download(found.path, found.path.name)
    with gateway.database.read() as session:
        row = get_file_row(session, file_id)
    return download(gateway.artifacts.file(row.id), row.filename)


@router.delete(
    "/{file_id}",
    summary="Delete a file",
    responses=documented_errors(NotFound, Conflict),
)
def delete(gateway: Gateway, _principal: Principal, file_id: str) -> Deleted:
    """Delete a file that no unfinished job needs."""
    with gateway.database.write() as session:
        remove_file(session, gateway.artifacts, file_id)
    remove_content(gateway.artifacts, file_id)
    return Deleted(id=file_id, object="file")
