"""A worker's request that its child saves a checkpoint and ends: a file in the job's folder.

A file reaches every process of a child, including those that a launcher started on its behalf, at
a moment of their choosing. Only the standard library is imported here, because every runtime
imports this module.
"""

from pathlib import Path

REQUEST = "pause.request"


def request_pause_of(job_dir: Path) -> None:
    """Ask the child that works in a folder to pause."""
    (job_dir / REQUEST).touch()


def withdraw_pause(job_dir: Path) -> None:
    """Remove the request of an earlier attempt."""
    (job_dir / REQUEST).unlink(missing_ok=True)


def pause_requested(job_dir: Path) -> bool:
    """Whether the child that works in a folder was asked to pause."""
    return (job_dir / REQUEST).exists()
