"""The network namespace of a slot's runs, reused until a run opens a socket in it.

Creating and freeing one costs more than the rest of a small run. A namespace in which no run has
opened an internet or netlink socket, and in which no local socket is left, is as good as new:
counters, ports and addresses belong to such sockets.
"""

import contextlib
import fcntl
import os
import platform
import struct

from services.sandbox.guest import syscalls

_SOCKET = {"x86_64": 41, "aarch64": 198}
_AF_UNIX = 1
_NUMBER, _FAMILY = 0, 16  # offsets in struct seccomp_data
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ASK = 0x7FFF_0000, 0x7FC0_0000
_INSTRUCTION = struct.Struct("=HBBI")
_ASKING_FILTER = b"".join(
    _INSTRUCTION.pack(*one)
    for one in (
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 0, 3, _SOCKET.get(platform.machine(), 0)),
        (_LOAD, 0, 0, _FAMILY),
        (_JUMP_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _ASK),
        (_RETURN, 0, 0, _ALLOW),
    )
)

_RECEIVE, _ANSWER = 0xC050_2100, 0xC018_2101
_NOTIFICATION_BYTES = 80
_REPLY = struct.Struct("=QqiI")
_CONTINUE = 1
_HEADING_LINES = 1


class SlotNetwork:
    """A network namespace with nothing but a loopback interface, for one run after another."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._namespace: int | None = None
        self._local_sockets = -1
        self._used = False

    def prepare(self) -> None:
        """Ensure a namespace that no run has used; raises OSError."""
        if self._namespace is not None and self._is_used():
            os.close(self._namespace)
            os.close(self._local_sockets)
            self._namespace = None
        if self._namespace is None:
            self._namespace = self._create()

    def enter(self) -> None:
        """Move this process, a program, into the namespace."""
        if self._namespace is None:
            raise ValueError("the network was not prepared")
        syscalls.enter_network(self._namespace)

    def mark_used(self) -> None:
        """Give the next run another namespace."""
        self._used = True

    def admit_socket(self, watch: int) -> None:
        """Resume a program blocked in socket() by `watch_sockets`."""
        self.mark_used()
        notification = bytearray(_NOTIFICATION_BYTES)
        with contextlib.suppress(OSError):  # it was killed in the meantime
            fcntl.ioctl(watch, _RECEIVE, notification)
            (number,) = struct.unpack_from("=Q", notification)
            fcntl.ioctl(watch, _ANSWER, bytearray(_REPLY.pack(number, 0, 0, _CONTINUE)))

    def _create(self) -> int:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        try:
            syscalls.bring_up_loopback()
            self._local_sockets = os.open("/proc/self/net/unix", os.O_RDONLY)
            self._used = False
            return os.open("/proc/self/ns/net", os.O_RDONLY)
        finally:
            syscalls.enter_network(self._own)

    def _is_used(self) -> bool:
        # Sockets that were sent to each other outlive their processes for a moment.
        lines = os.pread(self._local_sockets, 4096, 0).count(b"\n")
        return self._used or lines > _HEADING_LINES


def watch_sockets() -> int | None:
    """Make this process and its children ask permission to open an internet or netlink socket.

    Returns the descriptor that they ask, for `SlotNetwork.admit_socket`; None if the kernel does
    not offer it, as below another supervisor. Must come before the filter of system calls, which
    alone decides whether a call is allowed.
    """
    try:
        return syscalls.install_asking_filter(_ASKING_FILTER)
    except OSError:
        return None
