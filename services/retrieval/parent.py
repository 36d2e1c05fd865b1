"""Tie a process's lifetime to its parent's."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent(parent: int) -> None:
    """Deliver SIGTERM to this process when its parent dies; exit now if it already has."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)
