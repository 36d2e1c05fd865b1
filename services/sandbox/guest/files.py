"""The input files of a run, and the files fetched from it.

Fetching happens after every process of the run is dead. Only regular files below the work directory
are read, and no link is followed.
"""

import errno
import fcntl
import fnmatch
import itertools
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeVar

from services.sandbox.guest import frames, syscalls

MAX_BYTES = 64 << 20
MAX_FILES = 1000
MAX_DEPTH = 200
"""More deeply nested folders are not searched."""
SPACE_SECONDS = 2.0
"""How long a run that has not started waits for space on a shared disk that is full: a program that
uses too much of it is being killed."""

_MAX_SEEN = 100_000
_CHUNK = 1 << 20
_PIPE_HOLDS = 1 << 16
_MAX_NAMES_BYTES = 1 << 20  # the default fs.pipe-max-size
_SPACE_POLL_SECONDS = 0.02

Result = TypeVar("Result")


class Fetched(NamedTuple):
    """A file to send: its path below the work directory, a descriptor, and its size in bytes."""

    name: str
    descriptor: int
    size: int


def write_files(channel: socket.socket, files: list[tuple[str, int, bool]]) -> None:
    """Create files of (path, size, executable) from the contents that follow on ``channel``.

    They are created below the current folder, which is empty. Raises OSError.
    """
    for name, size, executable in files:
        with _with_space(partial(_create, name)) as file:
            left = size
            while left:
                chunk = memoryview(frames.exactly(channel, min(left, _CHUNK)))
                left -= len(chunk)
                while chunk:  # a full disk accepts a part before it fails
                    chunk = chunk[_with_space(partial(file.write, chunk)) :]
        if executable:
            Path(name).chmod(0o755)


def make_links(links: list[tuple[str, str]]) -> None:
    """Make symbolic links of (name, target) in the current folder; raises OSError."""
    for name, target in links:
        Path(name).symlink_to(target)


def _create(name: str) -> FileIO:
    if "/" in name:  # rare, and the first use of a path copies dozens of pages
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    return FileIO(name, "x")


def _with_space(step: Callable[[], Result]) -> Result:
    """Retry a step while the disk is full, for at most `SPACE_SECONDS`."""
    deadline = time.monotonic() + SPACE_SECONDS
    while True:
        try:
            return step()
        except OSError as error:
            if error.errno != errno.ENOSPC or time.monotonic() >= deadline:
                raise
        time.sleep(_SPACE_POLL_SECONDS)


def write_names(names: list[str], pipe: int) -> bool:
    """Write the names of the files to fetch, if any, into a pipe that holds them all.

    Raises OSError.
    """
    if not names:
        return False
    text = json.dumps(names).encode()
    if len(text) > _PIPE_HOLDS:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _MAX_NAMES_BYTES)
    if len(text) > _MAX_NAMES_BYTES:
        raise OSError(errno.E2BIG, "the names of the files to fetch are too long")
    os.write(pipe, text)
    os.close(pipe)
    return True


def answer_with_files(
    channel: socket.socket, answer: frames.Header, wanted: int, workspace: int
) -> None:
    """Send ``answer`` with the files whose names are in the pipe ``wanted``."""
    with open(wanted, "rb") as pipe:
        names: list[str] = json.loads(pipe.read())
    fetched, left_out = open_files(workspace, names)
    answer["files"] = [(file.name, file.size) for file in fetched]
    answer["left_out"] = left_out
    frames.send(channel, answer, body_length=sum(file.size for file in fetched))
    for file in fetched:
        sent = 0
        while sent < file.size:
            sent += os.sendfile(channel.fileno(), file.descriptor, sent, file.size - sent)
        os.close(file.descriptor)


def open_files(workspace: int, wanted: list[str]) -> tuple[list[Fetched], list[str]]:
    """Open the wanted files; return them, and the names that exceed the limits.

    A name with ``*`` is a pattern for the whole path. Missing files are skipped.
    """
    fetched: list[Fetched] = []
    left_out: list[str] = []
    total = 0
    for name in dict.fromkeys(_names(workspace, wanted)):
        descriptor = _open_regular(workspace, name)
        if descriptor is None:
            continue
        size = os.fstat(descriptor).st_size
        if len(fetched) >= MAX_FILES or total + size > MAX_BYTES:
            os.close(descriptor)
            left_out.append(name)
            continue
        total += size
        fetched.append(Fetched(name, descriptor, size))
    return fetched, left_out


def _names(workspace: int, wanted: list[str]) -> Iterator[str]:
    patterns = [name for name in wanted if "*" in name]
    yield from (name for name in wanted if "*" not in name)
    if not patterns:
        return
    for path, entry in itertools.islice(walk(workspace), _MAX_SEEN):
        matched = any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
        if matched and not entry.is_dir(follow_symlinks=False):
            yield path


def walk(folder: int) -> "Iterator[tuple[str, os.DirEntry[str]]]":
    """Every entry below an open folder with its path, to a depth of `MAX_DEPTH`.

    Safe while a program changes what is walked: it follows no link, and opens nothing but folders
    (opening a FIFO would block).
    """
    pending = [""]
    while pending:
        path = pending.pop()
        try:
            opened = syscalls.open_beneath(folder, path or ".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # removed or replaced in the meantime
            continue
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    inner = f"{path}/{entry.name}" if path else entry.name
                    yield inner, entry
                    if entry.is_dir(follow_symlinks=False) and inner.count("/") < MAX_DEPTH:
                        pending.append(inner)
        finally:
            os.close(opened)


def _open_regular(workspace: int, name: str) -> int | None:
    try:
        name.encode()
        # Without O_NONBLOCK, opening a FIFO would block until it has a writer.
        descriptor = syscalls.open_beneath(workspace, name, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, UnicodeEncodeError):  # missing, a link, or a name that is not UTF-8
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
