"""Starts the service like a container without an init process: it adopts orphans.

Everything that a program leaves behind is then found among its descendants. On SIGUSR1 it gives
back the memory that nothing uses, and makes the file that `GIVEN_BACK` names: what allocators keep
varies by tens of megabytes with the requests that happened to come at the same time.
"""

import ctypes
import gc
import os
import runpy
import signal
from pathlib import Path
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
GIVEN_BACK = "GIVEN_BACK"

if __name__ == "__main__":
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def give_back(_signal: int, _frame: FrameType | None) -> None:
        gc.collect()
        libc.malloc_trim(0)
        Path(os.environ[GIVEN_BACK]).touch()

    signal.signal(signal.SIGUSR1, give_back)
    runpy.run_module("services.sandbox", run_name="__main__", alter_sys=True)
