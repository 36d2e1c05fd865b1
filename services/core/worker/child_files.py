"""Opening the files of a child, which may have put anything in their place."""

import os
import stat
from pathlib import Path
from typing import IO


def open_child_file(path: Path, *, writable: bool = False) -> IO[bytes]:
    """Open a regular file; a link, a pipe or a device in its place is an `OSError`.

    A link would lead the worker to files that are not the child's, a pipe keep it waiting.
    """
    access = os.O_RDWR if writable else os.O_RDONLY
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb+" if writable else "rb")
