"""A worker's word to its child that other jobs wait for its devices: a file in the job's folder.

A child that is idle may end for them. It stands for as long as they wait.
"""

from pathlib import Path

MARK = "others.wait"


def tell_that_others_wait(job_dir: Path, waiting: bool) -> None:
    """Tell the child that works in a folder whether others wait."""
    if waiting:
        (job_dir / MARK).touch()
    else:
        (job_dir / MARK).unlink(missing_ok=True)


def others_wait(job_dir: Path) -> bool:
    """Whether other jobs wait for the devices of the child that works in a folder."""
    return (job_dir / MARK).exists()
