"""Access to the files of a running session.

Follows no link and opens only regular files, so nothing a cell creates leads elsewhere or blocks.
"""

import errno
import heapq
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from services.sandbox.guest import syscalls
from services.sandbox.guest.files import walk


class Folder:
    """The work directory, by descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, path: str, content: bytes) -> list[dict[str, Any]]:
        """Create or replace a file and its parent folders, and list it; raises OSError.

        A running cell sees the former file, or none, until the new one is whole.
        """
        self._make_folders(path)
        parent, _, name = path.rpartition("/")
        folder = syscalls.open_beneath(
            self._descriptor, parent or ".", os.O_RDONLY | os.O_DIRECTORY
        )
        try:
            _replace(folder, name, content)
        finally:
            os.close(folder)
        return self._entries([path])

    def read(self, path: str, max_bytes: int) -> bytes:
        """The content of a file; raises OSError, EFBIG if it is larger than ``max_bytes``."""
        descriptor = syscalls.open_beneath(self._descriptor, path, os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EISDIR, "not a regular file")
        with open(descriptor, "rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return content

    def names(self, after: str, limit: int) -> list[dict[str, Any]]:
        """The first ``limit`` regular files after ``after`` by path, with size and time."""
        paths = heapq.nsmallest(limit, (path for path in self._paths() if path > after))
        return self._entries(paths)

    def _make_folders(self, path: str) -> None:
        parts = path.split("/")
        for length in range(1, len(parts)):
            with suppress(FileExistsError):
                os.mkdir("/".join(parts[:length]), dir_fd=self._descriptor)

    def _paths(self) -> Iterator[str]:
        for path, entry in walk(self._descriptor):
            if not entry.is_dir(follow_symlinks=False):
                with suppress(UnicodeEncodeError):  # no client could name it
                    path.encode()
                    yield path

    def _entries(self, paths: Iterable[str]) -> list[dict[str, Any]]:
        entries = []
        for path in paths:
            with suppress(OSError):  # it was just removed
                status = os.stat(path, dir_fd=self._descriptor, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    modified = int(status.st_mtime)
                    entries.append({"path": path, "bytes": status.st_size, "modified": modified})
        return entries


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a whole file where there is none or a regular one."""
    mode = 0o644
    with suppress(FileNotFoundError):
        former = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(former.st_mode):
            raise OSError(errno.EISDIR, "not a regular file")
        mode = stat.S_IMODE(former.st_mode)
    part = f".upload-{os.urandom(8).hex()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)
