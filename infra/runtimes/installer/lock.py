"""An inter-process lock: one installation at a time."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_SECONDS = 0.5


class LockTimeout(Exception):
    """Another process held the lock beyond the limit."""


@contextmanager
def exclusive(path: Path, limit: float, waiting: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock at ``path``; yield its file descriptor.

    A child that inherits the descriptor keeps the lock for as long as it lives, so an installer
    that was killed does not admit the next one while its child still writes. ``waiting`` is told
    who holds the lock, repeatedly; after ``limit`` seconds `LockTimeout` is raised.
    """
    deadline = time.monotonic() + limit
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _acquired(descriptor):
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            if time.monotonic() > deadline:
                raise LockTimeout(
                    f"process {holder} has been installing it for over {limit / 60:.0f} minutes "
                    f"(it holds {path})"
                )
            waiting(f"waiting for the install that process {holder} has begun")
            time.sleep(POLL_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
