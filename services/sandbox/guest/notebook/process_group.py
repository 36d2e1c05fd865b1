"""The end of a kernel's process group."""

import os
import signal
import time
from contextlib import suppress

_LONGEST_WAIT = 10.0
_PAUSE = 0.005


def await_end(leader: int) -> None:
    """Kill what is left of the group of ``leader``, which has been reaped, and wait for its end.

    Processes that die, and those that nobody has reaped yet, still count against the limit of
    processes: beside hundreds of them a new kernel may get no thread. The wait has a limit, after
    which the next kernel has to take its chance.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(leader, signal.SIGKILL)
            time.sleep(_PAUSE)
