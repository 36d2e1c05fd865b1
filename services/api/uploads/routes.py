"""/v1/uploads."""

import shutil
import time
from typing import Any, Literal

from fastapi import APIRouter, Request
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from services.api.context import Gateway, GatewayContext
from services.api.files.service import add_file, file_view
from services.api.files.upload import receive_part
from services.api.idempotency import Creation
from services.api.uploads.parts import UploadParts, UploadState
from services.contracts.data.files import (
    MAX_PART_BYTES,
    CompleteUpload,
    CreateUpload,
    File,
    PartialUpload,
    UploadPart,
)
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StorageFull,
)
from services.core.db.engine import advisory_lock
from services.core.db.tables import FileRow
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/uploads", tags=["uploads"], responses=documented_errors(AuthenticationFailed)
)

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"data": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


@router.post(
    "",
    summary="Create a multipart upload",
    responses=documented_errors(InvalidRequest, Conflict, PayloadTooLarge, StorageFull),
)
def create(gateway: Gateway, creation: Creation, body: CreateUpload) -> PartialUpload:
    """Create an upload that accepts parts for an hour."""
    limit = gateway.settings.max_upload_bytes
    if body.bytes > limit:
        raise PayloadTooLarge(f"the file is larger than {limit} bytes", param="bytes")
    return creation.create(
        "uploads", body, PartialUpload, lambda _: _view(_parts(gateway).create(body), None)
    )


@router.post(
    "/{upload_id}/parts",
    summary="Add a part",
    openapi_extra=_FORM,
    responses=documented_errors(InvalidRequest, NotFound, Conflict, PayloadTooLarge, StorageFull),
)
async def add_part(
    request: Request, gateway: Gateway, _principal: Principal, upload_id: str
) -> UploadPart:
    """Add a part of at most 64 MiB; parts may arrive in parallel and in any order."""
    parts = _parts(gateway)
    state = await run_in_threadpool(_pending, gateway, upload_id)
    path = parts.receiving(state)
    await receive_part(request, path, MAX_PART_BYTES)
    try:
        await run_in_threadpool(_pending, gateway, upload_id)
        part_id = await run_in_threadpool(parts.add, state, path)
    finally:
        path.unlink(missing_ok=True)
    return UploadPart(id=part_id, created_at=int(time.time()), upload_id=upload_id)


@router.post(
    "/{upload_id}/complete",
    summary="Complete an upload",
    responses=documented_errors(InvalidRequest, NotFound, Conflict, StorageFull),
)
def complete(
    gateway: Gateway, _principal: Principal, upload_id: str, body: CompleteUpload
) -> PartialUpload:
    """Assemble the parts into a file; a retry returns the same file."""
    parts = _parts(gateway)
    state = parts.read(upload_id)
    with gateway.database.read() as session:
        file = _file_of(session, state)
    if file is not None:
        # The parts remain if an earlier request ended between the commit and their removal.
        return _view(state if state.completed else parts.complete(state), file)
    state.check_pending()
    upload = parts.assemble(state, body.part_ids, body.md5)
    try:
        with gateway.database.write() as session:
            advisory_lock(session, state.id)
            file = _file_of(session, state)
            if file is None:
                parts.read(upload_id).check_pending()
                file = add_file(session, gateway.artifacts, upload)
    finally:
        shutil.rmtree(upload.path.parent, ignore_errors=True)
    return _view(parts.complete(state), file)


@router.post(
    "/{upload_id}/cancel",
    summary="Cancel an upload",
    responses=documented_errors(NotFound, Conflict, StorageFull),
)
def cancel(gateway: Gateway, _principal: Principal, upload_id: str) -> PartialUpload:
    """Reject further parts and delete the received ones. Cancelling twice is allowed."""
    parts = _parts(gateway)
    with gateway.database.write() as session:
        advisory_lock(session, upload_id)
        state = parts.read(upload_id)
        if state.completed or _file_of(session, state) is not None:
            raise Conflict(f"upload {upload_id} is completed", code="upload_completed")
        return _view(parts.cancel(state), None)


def _parts(gateway: GatewayContext) -> UploadParts:
    return UploadParts(gateway.artifacts.parts())


def _pending(gateway: GatewayContext, upload_id: str) -> UploadState:
    """The state of an upload that accepts parts. Raises `NotFound` and `Conflict`."""
    state = _parts(gateway).read(upload_id)
    state.check_pending()
    with gateway.database.read() as session:
        if _file_of(session, state) is not None:
            raise Conflict(f"upload {upload_id} is completed", code="upload_completed")
    return state


def _file_of(session: Session, state: UploadState) -> File | None:
    """The file of a completed upload, unless it was deleted."""
    row = session.scalars(select(FileRow).where(FileRow.id == state.file_id)).one_or_none()
    return None if row is None else file_view(row)


def _view(state: UploadState, file: File | None) -> PartialUpload:
    status: Literal["pending", "completed", "cancelled", "expired"] = "pending"
    if state.completed or file is not None:
        status = "completed"
    elif state.cancelled:
        status = "cancelled"
    elif time.time() >= state.expires_at:
        status = "expired"
    return PartialUpload(
        id=state.id,
        bytes=state.request.bytes,
        created_at=int(state.created_at),
        expires_at=int(state.expires_at),
        filename=state.request.filename,
        purpose=state.request.purpose,
        status=status,
        file=file,
    )
