"""Starts the service like a container without an init process: it adopts orphans.

Everything that a program leaves behind is then found among its descendants.
"""

import ctypes
import os
import runpy

PR_SET_CHILD_SUBREAPER = 36

if __name__ == "__main__":
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    runpy.run_module("services.sandbox", run_name="__main__", alter_sys=True)
