"""The end of a kernel's process group."""

import os
import signal
import time
from contextlib import suppress

_LONGEST_WAIT = 10.0
_PAUSE = 0.005


def await_end(leader: int) -> None:
    """Kill the rest of the group of ``leader``, which has been reaped, and wait for its end.

    Dying and unreaped processes still count against the process limit: with hundreds of them a new
    kernel may fail to start a thread. The wait is bounded; after that the next kernel is started
    regardless.
    """
    deadline = time.monotonic() + _LONGEST_WAIT
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(leader, signal.SIGKILL)
            time.sleep(_PAUSE)
