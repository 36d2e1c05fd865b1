"""What the exit code of a command means."""

from enum import IntEnum

from services.contracts.jobs import JobStatus


class ExitCode(IntEnum):
    """Exit codes; those of jobs are given by ``submit --follow``, ``logs -f`` and ``wait``."""

    OK = 0  # the command did what it should; the job succeeded
    FAILED = 1  # the command could not do it; the job failed
    USAGE = 2  # the command line is wrong
    CANCELLED = 3  # the job was cancelled
    TIMED_OUT = 124  # the job was not done in time, and goes on
    INTERRUPTED = 130  # Ctrl-C; a job that was being followed goes on


def of_job(status: JobStatus) -> ExitCode:
    """Return the exit code of a job that is over."""
    return {
        JobStatus.SUCCEEDED: ExitCode.OK,
        JobStatus.CANCELLED: ExitCode.CANCELLED,
    }.get(status, ExitCode.FAILED)
