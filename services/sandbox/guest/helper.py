"""What a slot would wait for: answered by a fork that it can leave."""

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Callable

from services.sandbox.guest import syscalls

_LONGEST_SECONDS = 5.0
_MEANWHILE_SECONDS = 0.1


def answer_of(
    task: Callable[[], str],
    user: int | None,
    *,
    until: float = math.inf,
    meanwhile: Callable[[], object] | None = None,
) -> str | None:
    """Evaluate in a fork, as ``user`` if given: no other may inspect or reach its processes.

    None if it does not answer by ``until`` (monotonic), or in five seconds: what it reads may be
    held by a process of the run that gets no turn, and before Linux 6.12, processes of the user can
    stop or kill it. Until then, what ``meanwhile`` raises ends it.
    """
    read_end, write_end = os.pipe()
    child = syscalls.fork()
    if child == 0:
        try:
            if user is not None:
                become(user)
            syscalls.die_with_parent()
            os.write(write_end, task().encode())
        finally:
            os._exit(0)
    os.close(write_end)
    deadline = min(until, time.monotonic() + _LONGEST_SECONDS)
    pause = _LONGEST_SECONDS if meanwhile is None else _MEANWHILE_SECONDS
    try:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([read_end], [], [], min(left, pause))[0]:
                return os.read(read_end, 4096).decode() or None
            if meanwhile is not None:
                meanwhile()
        return None
    finally:
        os.close(read_end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # in a zygote the kernel reaps children
            os.waitpid(child, 0)


def become(user: int) -> None:
    """Irrevocably become the user."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
