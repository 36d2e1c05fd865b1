"""/v1/jobs/{job_id}/notes."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.context import Gateway
from services.api.idempotency import Creation
from services.api.notes.service import (
    check_subject,
    create_note,
    find_notes,
    list_notes,
    remove_note,
)
from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.notes import CreateNote, Note
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of

router = APIRouter(
    prefix="/v1/jobs/{job_id}/notes",
    tags=["jobs"],
    responses=documented_errors(AuthenticationFailed),
)

found_router = APIRouter(
    prefix="/v1/notes", tags=["jobs"], responses=documented_errors(AuthenticationFailed)
)

About = Annotated[str | None, Query(max_length=200, description="Only notes of this trajectory.")]


Containing = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="Only notes whose text contains this, ignoring the case of ASCII letters.",
    ),
]


@found_router.get(
    "", summary="List the notes of all jobs", responses=documented_errors(InvalidRequest, NotFound)
)
def list_found_notes(
    gateway: Gateway,
    _principal: Principal,
    text: Containing = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Note]:
    """List the notes about all jobs and their trajectories, newest first."""
    with gateway.database.read() as session:
        notes, has_more = find_notes(session, text, after, limit)
    return page_of(notes, has_more)


@router.post(
    "",
    summary="Write a note about a job or a trajectory",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def create_job_note(gateway: Gateway, creation: Creation, job_id: str, body: CreateNote) -> Note:
    """Write a note about a job or one of its trajectories. It is deleted with the job."""
    check_subject(gateway.database, gateway.artifacts, job_id, body.trajectory_id)
    return creation.create(
        f"jobs/{job_id}/notes",
        body,
        Note,
        lambda session: create_note(session, job_id, body),
    )


@router.get(
    "", summary="List the notes of a job", responses=documented_errors(InvalidRequest, NotFound)
)
def list_job_notes(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    trajectory: About = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Note]:
    """List the notes about a job and its trajectories, newest first."""
    with gateway.database.read() as session:
        notes, has_more = list_notes(session, job_id, trajectory, after, limit)
    return page_of(notes, has_more)


@router.delete("/{note_id}", summary="Delete a note", responses=documented_errors(NotFound))
def delete_job_note(gateway: Gateway, _principal: Principal, job_id: str, note_id: str) -> Deleted:
    """Delete a note."""
    with gateway.database.write() as session:
        remove_note(session, job_id, note_id)
    return Deleted(id=note_id, object="job.note")
