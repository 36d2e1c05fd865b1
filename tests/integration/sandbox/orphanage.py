"""Starts the sandbox service as a container does that has no init: orphans become its children.

So whatever a program leaves behind is found below the service, no matter which process started it.
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
