"""A process whose forks build indexes and die at a chosen point.

A moment is one at which a fork is about to change the files of an index: to open one for writing,
to rename, remove or truncate it, to make a folder or to sync. Dying there by SIGKILL, for each of
them in turn, is dying at every moment as far as the files can tell.

It reads lines ``<folder of the order> <number of the moment>`` and answers each with the signal
that ended the fork, 0 where it came to its end before that moment.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.retrieval.builder import __main__ as building
from services.retrieval.builder import __main__ as orders
from services.retrieval.builder import text, vectors
from tests.support.search.hashing_encoder import HashingEncoder

COMMIT_PASSAGES = 40
ENCODE_CHUNK = 30

_CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.truncate", "os.mkdir"})


class CrashPoints:
    """The process, asked from a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def dies(self, order: Path, moment: int) -> bool:
        """Carry out an order until a moment; false when it was done before."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order} {moment}\n")
        self._process.stdin.flush()
        ended_by = int(self._process.stdout.readline())
        assert ended_by in (0, signal.SIGKILL)
        return ended_by == signal.SIGKILL


@contextlib.contextmanager
def crash_points(environment: dict[str, str]) -> Iterator[CrashPoints]:
    """The process for the duration of a block."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield CrashPoints(process)


def _die_at(moment: int, root: str) -> None:
    """Die at the moment of that number, counted from 1."""
    passed = 0

    def count() -> None:
        nonlocal passed
        passed += 1
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (event in _CHANGES or writes) and str(arguments[0]).startswith(root):
            count()

    sync = os.fsync

    def counted_sync(fd: Any) -> None:
        count()
        sync(fd)

    os.fsync = counted_sync
    sys.addaudithook(audit)


def _serve() -> None:
    text.COMMIT_PASSAGES = COMMIT_PASSAGES
    vectors.ENCODE_CHUNK = ENCODE_CHUNK
    vars(orders)["running_encoder"] = HashingEncoder().in_place
    for line in sys.stdin:
        order, _, moment = line.rpartition(" ")
        child = os.fork()
        if not child:
            _die_at(int(moment), os.environ["TEMPER_RETRIEVAL_INDEXES"])
            building.main(Path(order))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    _serve()
