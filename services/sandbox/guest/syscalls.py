"""System calls missing from Python's standard library."""

import ctypes
import os
import platform
import struct
import time

# PyDLL keeps the GIL: a clone must not return in a child that waits for it.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
# Looked up once: the first look-up of a function is slow, and every program would repeat it.
_mount, _umount2, _unshare, _setns = _libc.mount, _libc.umount2, _libc.unshare, _libc.setns
_prctl, _sethostname = _libc.prctl, _libc.sethostname

_NUMBERS = {
    "x86_64": {"clone": 56, "capset": 126, "pivot_root": 155, "sched": 314, "seccomp": 317},
    "aarch64": {"clone": 220, "capset": 91, "pivot_root": 41, "sched": 274, "seccomp": 277},
}
_CALLS = _NUMBERS.get(platform.machine(), {})
_OPENAT2 = 437
_CLOSE_RANGE = 436
_MOUNT_SETATTR = 442

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2
MOUNT_READ_ONLY = 0x1
MOUNT_NOSUID = 0x2
MOUNT_NODEV = 0x4

_CHILD_SIGNAL = 17
_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_PR_GET_TID_ADDRESS = 40
_AF_INET, _SOCK_DGRAM = 2, 2 | os.O_CLOEXEC
_SIOCSIFFLAGS = 0x8914
_LOOPBACK_UP = struct.pack("16sH22x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_FILTER_NEW_LISTENER, _FILTER_WAIT_KILLABLE = 0x08, 0x20
_CAPABILITY_VERSION = 0x20080522
_MADV_COLLAPSE = 25
_SCHEDULING = struct.Struct("IIQiIQQQ")  # struct sched_attr, its first version
_SCHED_RESET_ON_FORK = 0x01
_SHORTEST_SLICE_NANOSECONDS = 100_000
_PROCESS_CLOCK = 2
_RESOLVE_BENEATH_WITHOUT_LINKS = 0x08 | 0x04 | 0x02
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000


class _FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def fork() -> int:
    """Fork; returns 0 in the child.

    Unlike os.fork, runs no at-fork handlers: a single-threaded process that holds no lock needs
    none of them but for new random seeds. Tells the C library the child's thread id, which it uses
    to signal threads and own locks.
    """
    noted = ctypes.c_void_p()
    known = _prctl(_PR_GET_TID_ADDRESS, ctypes.byref(noted), 0, 0, 0) == 0
    flags = _CHILD_SIGNAL | (_CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID if known else 0)
    # The order of the last two arguments depends on the architecture; the TLS one is ignored.
    return _checked(_libc.syscall(_CALLS["clone"], flags, 0, 0, noted, noted), "fork")


def unshare(namespaces: int) -> None:
    """Move this process into new namespaces."""
    _checked(_unshare(namespaces), "unshare")


def enter_pid_namespace(descriptor: int) -> None:
    """Let future children start in this pid namespace."""
    _checked(_setns(descriptor, CLONE_NEWPID), "setns")


def enter_network(descriptor: int) -> None:
    """Move this process into this network namespace."""
    _checked(_setns(descriptor, CLONE_NEWNET), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount ``source`` on ``target``."""
    arguments = (source.encode(), target.encode(), kind.encode())
    done = _mount(*arguments, ctypes.c_ulong(flags), options.encode())
    _checked(done, f"mount {target}")


def restrict_mount(target: str, attributes: int) -> None:
    """Add attributes, such as read-only, to a mount and all mounts below it."""
    structure = struct.pack("QQQQ", attributes, 0, 0, 0)
    done = _libc.syscall(
        *(_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, structure, len(structure))
    )
    _checked(done, f"mount_setattr {target}")


def detach(target: str) -> None:
    """Detach a mount from the tree; open descriptors keep it alive."""
    _checked(_umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root(folder: str) -> None:
    """Make ``folder``, a mount point, the root; the old tree becomes unreachable."""
    os.chdir(folder)
    _checked(_libc.syscall(_CALLS["pivot_root"], b".", b"."), "pivot_root")
    detach(".")
    os.chdir("/")


def set_host_name(name: str) -> None:
    """Set the host name of this UTS namespace."""
    _checked(_sethostname(name.encode(), len(name)), "sethostname")


def bring_up_loopback() -> None:
    """Bring up the loopback interface of this network namespace."""
    # Without the socket module: touching what is otherwise unused copies its pages in a fork.
    descriptor = _checked(_libc.socket(_AF_INET, _SOCK_DGRAM, 0), "socket")
    done = _libc.ioctl(descriptor, _SIOCSIFFLAGS, _LOOPBACK_UP)
    os.close(descriptor)
    _checked(done, "SIOCSIFFLAGS")


def die_with_parent(number: int = 9) -> None:
    """Have the kernel send this signal, by default SIGKILL, when the parent dies."""
    _checked(_prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "PR_SET_PDEATHSIG")


def set_dumpable(dumpable: bool) -> None:
    """Set whether processes of the same user may inspect this one."""
    _checked(_prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0), "PR_SET_DUMPABLE")


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _checked(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def renounce_privileges() -> None:
    """Drop all capabilities, and set no_new_privs."""
    _checked(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    header, none = struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)
    _checked(_libc.syscall(_CALLS["capset"], header, none), "capset")


def install_filter(program: bytes) -> None:
    """Install a seccomp filter: an array of struct sock_filter."""
    _install(program, 0)


def install_asking_filter(program: bytes) -> int:
    """Install a filter that notifies a supervisor of some calls; return the notification
    descriptor. Once a notification is received, only a fatal signal interrupts the call, where
    supported.
    """
    try:
        return _install(program, _FILTER_NEW_LISTENER | _FILTER_WAIT_KILLABLE)
    except OSError:  # before Linux 5.19
        return _install(program, _FILTER_NEW_LISTENER)


def _install(program: bytes, flags: int) -> int:
    structure = ctypes.byref(_FilterProgram(len(program) // 8, program))
    done = _libc.syscall(_CALLS["seccomp"], _SECCOMP_SET_MODE_FILTER, flags, structure)
    return _checked(done, "seccomp")


def request_short_slices() -> None:
    """Have this process, but not its forks, scheduled soon after it wakes up. Its total share of
    time stays the same. Has no effect before Linux 6.12.
    """
    priority, size = os.getpriority(os.PRIO_PROCESS, 0), _SCHEDULING.size
    settings = (size, os.SCHED_OTHER, _SCHED_RESET_ON_FORK, priority, 0)
    attributes = _SCHEDULING.pack(*settings, _SHORTEST_SLICE_NANOSECONDS, 0, 0)
    _checked(_libc.syscall(_CALLS["sched"], 0, attributes, 0), "sched_setattr")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, without its children; raises OSError."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open ``path`` below the open ``folder``, following no link and crossing no mount."""
    structure = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, _RESOLVE_BENEATH_WITHOUT_LINKS)
    opened = _libc.syscall(_OPENAT2, folder, os.fsencode(path), structure, len(structure))
    return _checked(opened, f"open {path}")


def close_from(descriptor: int) -> None:
    """Close every descriptor from this number on."""
    _checked(_libc.syscall(_CLOSE_RANGE, descriptor, 0xFFFFFFFF, 0), "close_range")


def use_huge_pages(start: int, length: int) -> None:
    """Back this memory with huge pages if the kernel can: a fork then copies fewer page tables."""
    _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_COLLAPSE)
