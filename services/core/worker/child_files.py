"""Open files that a child wrote, and may have replaced by anything."""

import os
import stat
from pathlib import Path
from typing import IO


def open_child_file(path: Path, *, writable: bool = False) -> IO[bytes]:
    """Open a regular file; raises OSError for a symbolic link, a pipe or a device.

    A link could point to other files than the child's, and a pipe would block the worker.
    """
    access = os.O_RDWR if writable else os.O_RDONLY
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb+" if writable else "rb")
