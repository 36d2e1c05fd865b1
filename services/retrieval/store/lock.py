"""The right to build or change an index: one at a time, whatever the processes."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.retrieval.store.errors import IndexBusy, IndexReadOnly

_PAUSE = 0.02


@contextmanager
def locked(path: Path, timeout: float, *, make_folder: bool = False) -> Iterator[None]:
    """Hold the lock; it ends with the process.

    With ``make_folder`` the folder of an index that is new is made first. Raises IndexBusy after
    ``timeout`` seconds, or IndexReadOnly.
    """
    deadline = time.monotonic() + timeout
    while (descriptor := _taken(path, make_folder)) is None:
        if time.monotonic() >= deadline:
            raise IndexBusy(f"{path.parent.name!r} is being built or changed; try again later")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


def _taken(path: Path, make_folder: bool) -> int | None:
    """The locked file, unless somebody else has it or it was removed meanwhile."""
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except (FileNotFoundError, FileExistsError):
        # Another writer removed the folder; mkdir raises FileExistsError when it vanishes between
        # the two system calls behind exist_ok.
        return None
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise IndexReadOnly(f"{path} cannot be written: {error.strerror}") from error
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
