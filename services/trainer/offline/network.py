"""Cut a process off from the network: an empty network namespace of its own."""

import ctypes
import os
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000


def leave_network() -> None:
    """Leave the host's network, for this process and all that it starts.

    Call it before any thread exists. Raises OSError where the kernel, or a container's seccomp
    profile, does not let this user have a namespace. Sockets in the file system stay reachable.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) == 0:
        return
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no network namespace: {os.strerror(code)}")
    # The user keeps its own name in the new namespace.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
