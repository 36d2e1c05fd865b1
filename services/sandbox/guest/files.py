"""The files of a run: those it finds, and those that it left behind and somebody asked for.

Files are fetched when nothing of the run is alive: below the work directory, through no link,
and only regular ones. What a program put there cannot lead out of it.
"""

import contextlib
import errno
import fcntl
import fnmatch
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from services.sandbox.guest import frames, syscalls

MOST_BYTES = 64 << 20
MOST_FILES = 1000
_MOST_SEEN = 100_000
_CHUNK = 1 << 20
_PIPE_HOLDS = 1 << 16
_MOST_NAMES_BYTES = 1 << 20  # what anybody may make of a pipe


class Fetched(NamedTuple):
    """A file to send: its path below the work directory, open, and its size in bytes."""

    name: str
    descriptor: int
    size: int


def write_files(channel: socket.socket, files: list[tuple[str, int, bool]]) -> None:
    """Take (path, bytes, whether executable) each, whose contents follow one another.

    They go below the current folder, in which nothing is yet. Raises OSError.
    """
    for name, size, executable in files:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb", buffering=0) as file:
            left = size
            while left:
                left -= file.write(frames.exactly(channel, min(left, _CHUNK)))
        if executable:
            path.chmod(0o755)


def write_names(names: list[str]) -> tuple[int, ...]:
    """Put the names of files to fetch into a pipe that holds them; raises OSError."""
    if not names:
        return ()
    text = json.dumps(names).encode()
    read_end, write_end = os.pipe()
    if len(text) > _PIPE_HOLDS:
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _MOST_NAMES_BYTES)
    if len(text) > _MOST_NAMES_BYTES:
        raise OSError(errno.E2BIG, "the names of the files to fetch are too long")
    os.write(write_end, text)
    os.close(write_end)
    return (read_end,)


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
    """Open what was asked for; return that, and the names beyond the bounds.

    A name with ``*`` is a pattern over the whole path. What is missing is left out silently.
    """
    fetched: list[Fetched] = []
    left_out: list[str] = []
    total = 0
    for name in dict.fromkeys(_names(workspace, wanted)):
        descriptor = _open_regular(workspace, name)
        if descriptor is None:
            continue
        size = os.fstat(descriptor).st_size
        if len(fetched) >= MOST_FILES or total + size > MOST_BYTES:
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
    seen = 0
    with contextlib.suppress(RecursionError):  # nobody means to nest folders so deep
        for folder, _, names, _ in os.fwalk(dir_fd=workspace):
            seen += len(names)
            paths = (os.path.normpath(f"{folder}/{name}") for name in names)
            yield from (path for path in paths if any(fnmatch.fnmatch(path, p) for p in patterns))
            if seen > _MOST_SEEN:
                return


def _open_regular(workspace: int, name: str) -> int | None:
    try:
        # Without O_NONBLOCK the opening of a FIFO would wait for a writer.
        descriptor = syscalls.open_beneath(workspace, name, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, UnicodeEncodeError):  # missing, a link, or a name that no answer can hold
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
