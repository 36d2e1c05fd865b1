"""/v1/jobs/{job_id}/attempts: the worker, devices and outcome of each attempt at a job."""

from fastapi import APIRouter

from services.api.context import Gateway
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.contracts.jobs import Attempt, JobStatus
from services.core.db.tables import AttemptRow
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.jobs.attempts import list_attempts
from services.jobs.store import get_job

router = APIRouter(
    prefix="/v1/jobs/{job_id}/attempts",
    tags=["jobs"],
    responses=documented_errors(AuthenticationFailed),
)


@router.get(
    "", summary="List the attempts at a job", responses=documented_errors(InvalidRequest, NotFound)
)
def list_job_attempts(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Attempt]:
    """List the attempts at a job, latest first: worker, devices, times and outcome."""
    with gateway.database.read() as session:
        get_job(session, job_id)
        rows, has_more = list_attempts(session, job_id, _epoch(after), limit)
    return page_of([_view(row) for row in rows], has_more)


def _epoch(after: str | None) -> int | None:
    if after is None:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise InvalidRequest(f"{after[:80]!r} is not the id of an attempt", param="after")
    return int(after)


def _view(row: AttemptRow) -> Attempt:
    return Attempt(
        id=str(row.epoch),
        attempt=row.attempt,
        worker=row.worker,
        host=row.host,
        devices=row.devices,
        started_at=int(row.started_at),
        ended_at=None if row.ended_at is None else int(row.ended_at),
        became=None if row.became is None else JobStatus(row.became),
        reason=row.reason,
    )
