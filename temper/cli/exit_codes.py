"""Exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.contracts.jobs import JobStatus


class ExitCode(IntEnum):
    """Exit codes; ``submit --follow``, ``logs -f``, ``tail -f`` and ``wait`` return the job's."""

    OK = 0  # the command or the job succeeded
    FAILED = 1  # the command or the job failed
    USAGE = 2  # invalid command line
    CANCELLED = 3  # the job was cancelled
    TIMED_OUT = 124  # the job did not end in time; it keeps running
    INTERRUPTED = 130  # Ctrl-C; a followed job keeps running


def of_job(status: JobStatus) -> ExitCode:
    """Return the exit code of a job that has ended."""
    from services.contracts.jobs import JobStatus

    return {
        JobStatus.SUCCEEDED: ExitCode.OK,
        JobStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(status, ExitCode.FAILED)
