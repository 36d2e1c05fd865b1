"""Signals from a worker to a running child, as files in the job's folder.

A file reaches every process of a child, including those that a launcher started on its behalf, at
a moment of their choosing. Only the standard library is imported here, because every runtime
imports this module.
"""

from pathlib import Path

PAUSE = "pause.request"
OTHERS_WAIT = "others.wait"


def request_pause_of(job_dir: Path) -> None:
    """Ask the child of a job to save a checkpoint and exit."""
    (job_dir / PAUSE).touch()


def withdraw_pause(job_dir: Path) -> None:
    """Remove the request of an earlier attempt."""
    (job_dir / PAUSE).unlink(missing_ok=True)


def pause_requested(job_dir: Path) -> bool:
    """Whether the child of a job was asked to pause."""
    return (job_dir / PAUSE).exists()


def tell_that_others_wait(job_dir: Path, waiting: bool) -> None:
    """Tell the child whether other jobs wait for its devices; an idle one may exit for them."""
    if waiting:
        (job_dir / OTHERS_WAIT).touch()
    else:
        (job_dir / OTHERS_WAIT).unlink(missing_ok=True)


def others_wait(job_dir: Path) -> bool:
    """Whether other jobs wait for the devices of a job's child."""
    return (job_dir / OTHERS_WAIT).exists()
