"""Which failures are the infrastructure's (docs/failures.md has the table)."""

from http import HTTPStatus

from services.contracts.failures import InfrastructureCause
from services.core.process.worker_pool import (
    WorkerEnded,
    WorkerFailed,
    WorkerNotStarted,
    WorkerRaised,
    WorkerTimedOut,
)
from services.inference.clients.retries import FailureKind, ServiceFailed

REFUSES_EVERYTHING = frozenset({401, 402, 403, 404, 405, 407, 410, 421, 501})
"""Statuses with which a service would answer every request."""

_OVERLOADED = frozenset({429, 503, 504})

_OF_KIND: dict[FailureKind, InfrastructureCause | None] = {
    FailureKind.UNSENT: InfrastructureCause.REFUSED,
    FailureKind.BROKEN_OFF: InfrastructureCause.RESET,
    FailureKind.TIMED_OUT: InfrastructureCause.TIMED_OUT,
    FailureKind.UNREADABLE: InfrastructureCause.UNREADABLE,
    # The answer's length may be what the policy asked for.
    FailureKind.ENDLESS: None,
}

_OF_WORKER: tuple[tuple[type[WorkerFailed], InfrastructureCause], ...] = (
    (WorkerTimedOut, InfrastructureCause.TIMED_OUT),
    (WorkerNotStarted, InfrastructureCause.NOT_STARTED),
    (WorkerEnded, InfrastructureCause.KILLED),
)


def cause_of_status(status: int) -> InfrastructureCause | None:
    """The cause behind an HTTP status; None where the request itself was rejected."""
    if status in REFUSES_EVERYTHING or status < HTTPStatus.BAD_REQUEST:
        return InfrastructureCause.MISCONFIGURED
    if status in _OVERLOADED:
        return InfrastructureCause.OVERLOADED
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return InfrastructureCause.TIMED_OUT
    return InfrastructureCause.SERVER_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None


def cause_of(error: BaseException) -> InfrastructureCause | None:
    """The cause of an error, or of the error that it was raised from; None if the request was at
    fault: the policy's arguments, its program, or the row."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, ServiceFailed):
            return _of_request(each)
        if isinstance(each, WorkerFailed):
            return _of_worker(each)
        each = each.__cause__
    return None


def cause_of_foreign(error: BaseException) -> InfrastructureCause | None:
    """The cause of what an extension raised in our process, judged like a user's function."""
    if isinstance(error, ConnectionError | TimeoutError):
        return InfrastructureCause.SERVICE_ERROR
    return cause_of(error)


def _of_request(failed: ServiceFailed) -> InfrastructureCause | None:
    if failed.kind in _OF_KIND or failed.status is None:
        return _OF_KIND.get(failed.kind)
    return cause_of_status(failed.status)


def _of_worker(failed: WorkerFailed) -> InfrastructureCause | None:
    if isinstance(failed, WorkerRaised) and failed.unavailable:
        return InfrastructureCause.SERVICE_ERROR
    return next((cause for kind, cause in _OF_WORKER if isinstance(failed, kind)), None)
