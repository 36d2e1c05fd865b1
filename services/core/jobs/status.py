"""The status machine: which moves a job may make."""

from services.contracts.errors import TemperError
from services.contracts.jobs import JobStatus

EDGES: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.VALIDATING_FILES: frozenset(
        {JobStatus.QUEUED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELLED}),
    # Back to the queue: the worker was lost or is shutting down, and another may go on.
    JobStatus.RUNNING: frozenset(
        {JobStatus.QUEUED, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.PAUSED: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}


class IllegalMove(TemperError):
    """Code asked for a move that the table does not have; a fault of ours."""

    code = "illegal_move"


class LeaseLost(TemperError):
    """The job moved on without us: another epoch, owner or status holds now."""

    code = "lease_lost"


def check_move(job_id: str, before: JobStatus, after: JobStatus) -> None:
    """Raise `IllegalMove` unless the edge exists."""
    if after not in EDGES[before]:
        raise IllegalMove(f"job {job_id} cannot go from {before} to {after}")
