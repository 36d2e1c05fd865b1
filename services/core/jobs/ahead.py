"""Which running job is the first to return what a queued one waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, ResourceLeaseRow
from services.core.jobs.claims import SHORT_OF_DEVICES
from services.core.jobs.devices import CPU_SLOT, REMOTE
from services.core.jobs.job import REMOTE_SLOT, Job


@dataclass(frozen=True)
class Holder:
    """A running job that holds a device, and the seconds that it is expected to take."""

    job_id: str
    eta_seconds: float | None


def first_holders(session: Session, jobs: Sequence[Job]) -> Mapping[str, Holder]:
    """For each of ``jobs`` that waits for a device: the job that should be the first to return one
    of its kind, on any host."""
    short = [job for job in jobs if _is_short_of_devices(job)]
    if not short:
        return {}
    query = (
        select(ResourceLeaseRow.resource_id, JobRow.id, JobRow.eta_seconds)
        .join(JobRow, JobRow.id == ResourceLeaseRow.job_id)
        .where(JobRow.status == JobStatus.RUNNING.value)
    )
    first: dict[str, Holder] = {}
    for device, job_id, eta in session.execute(query):
        kind, holder = _kind(device), Holder(job_id, eta)
        if kind not in first or _rank(holder) < _rank(first[kind]):
            first[kind] = holder
    found = {job.id: _of_kinds(first, _wanted(job)) for job in short}
    return {job_id: holder for job_id, holder in found.items() if holder is not None}


def _is_short_of_devices(job: Job) -> bool:
    is_queued = job.status is JobStatus.QUEUED
    return is_queued and (job.queue_reason or "").startswith(SHORT_OF_DEVICES)


def _kind(device: str) -> str:
    return next((prefix for prefix in (CPU_SLOT, REMOTE) if device.startswith(prefix)), "GPU")


def _wanted(job: Job) -> Sequence[str]:
    """The kinds of device that a job takes, in the order in which it would."""
    if job.gpus is None:
        return "GPU", CPU_SLOT
    return (REMOTE if job.gpus == REMOTE_SLOT else CPU_SLOT if job.gpus == 0 else "GPU",)


def _of_kinds(first: Mapping[str, Holder], kinds: Sequence[str]) -> Holder | None:
    return next((first[kind] for kind in kinds if kind in first), None)


def _rank(holder: Holder) -> tuple[bool, float]:
    """Jobs whose end is known come first."""
    return holder.eta_seconds is None, holder.eta_seconds or 0.0
