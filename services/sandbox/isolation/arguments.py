"""The system calls whose arguments decide: sockets, threads, device nodes, terminals, options.

Only arguments that the kernel reads as 32 bits or fewer are looked at, and never what a pointer
points to: that could be changed between the look and the use.
"""

import errno
import socket
import stat
from collections.abc import Mapping

from services.sandbox.isolation.bpf import ALLOW, Clause, Match, Rule, error

_NEW_NAMESPACES = (
    0x0002_0000  # mount
    | 0x0200_0000  # cgroup
    | 0x0400_0000  # uts
    | 0x0800_0000  # ipc
    | 0x1000_0000  # user
    | 0x2000_0000  # pid
    | 0x4000_0000  # network
)

_SIBLING = 0x8000
"""A child of the program's own parent, the slot, which would have to wait for it."""

_PROCESS_OPTIONS = (
    *(1, 2, 3, 4),  # signal at the parent's death; dumpable
    *(7, 8, 23, 24, 27, 28, 38, 39, 47),  # capabilities and no-new-privileges: only ever fewer
    *(15, 16, 21, 25, 26, 29, 30),  # name; whether seccomp is on; time-stamp counter; timer slack
    *(36, 37, 40, 41, 42),  # reaper of orphans; thread pointer; huge pages
    *(50, 51, 52, 53, 54, 55, 56, 60, 61, 63, 64, 65, 66),  # the processor's own: vectors, pointers
    *(0x53564D41, 0x59616D61),  # names of memory areas; whom Yama lets trace
)

_DEVICE_CONTROLS = (
    *(0x5401, 0x5402, 0x5403, 0x5404, 0x5405, 0x5406, 0x5409, 0x540A, 0x540B),  # terminal modes
    *(0x540C, 0x540D, 0x540E, 0x540F, 0x5410, 0x5411, 0x5413, 0x5414, 0x5420),  # sessions, size
    *(0x5422, 0x5424, 0x5425, 0x5429, 0x5441),
    *(0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D),
    *(0x80045430, 0x40045431, 0x80045432, 0x80045438, 0x80045439, 0x80045440),  # pseudo-terminals
    *(0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460),  # of any descriptor
    *(0x2, 0x80086601, 0x80087601),  # block size, flags and generation of a file
    *(0x8905, 0x8906, 0x8907, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D),
    *(0x8921, 0x8927, 0x8933, 0x8938, 0x8942, 0x8946, 0x8970),  # reading network interfaces
    0x80045200,  # how much entropy there is
)
"""Left out on purpose: typing into a terminal (TIOCSTI, TIOCLINUX), line disciplines (TIOCSETD)."""

_NVIDIA_CONTROLS = (
    Clause((Match(1, (0x4600,), mask=0xFF00),), ALLOW),
    Clause((Match(1, (0x0000_0000, 0x3000_0000), mask=0xFFFF_FF00),), ALLOW),
)
"""The driver's whole range: its device nodes are inside only where an operator gives a GPU."""

_FIRST_PROCESS = (1,)
_SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_SPARING_THE_FIRST = Rule(ALLOW, (Clause((Match(0, _FIRST_PROCESS),), error(errno.EPERM)),))
"""The first process of a run has the program's user, and must not be made slow: it ends the run."""

_OF_A_PROCESS, _OF_A_USER = (0,), (2,)
_PRIORITIES = Rule(
    ALLOW,
    (
        Clause((Match(0, _OF_A_PROCESS), Match(1, _FIRST_PROCESS)), error(errno.EPERM)),
        Clause((Match(0, _OF_A_USER),), error(errno.EPERM)),
    ),
)

_TCP, _UDP, _MULTIPATH_TCP = 6, 17, 262
_SOCKET_TYPE = 0xF  # the rest of the argument are flags


def argument_rules(*, own_network: bool, own_processes: bool, sockets: bool) -> Mapping[str, Rule]:
    """Return the rule of each such call.

    ``own_network`` and ``own_processes`` say that programs have a network and a process namespace
    of their own; without ``sockets`` they get no socket at all but connected pairs.
    """
    return {
        "clone": Rule(
            error(errno.EPERM),
            (Clause((Match(0, (0,), mask=_NEW_NAMESPACES | _SIBLING),), ALLOW),),
        ),
        "mknod": _nodes(mode=1),
        "mknodat": _nodes(mode=2),
        "ioctl": Rule(
            error(errno.ENOTTY), (Clause((Match(1, _DEVICE_CONTROLS),), ALLOW), *_NVIDIA_CONTROLS)
        ),
        "prctl": _one_of(0, _PROCESS_OPTIONS, errno.EINVAL),
        # Linux as it is, asked for, without address randomisation, or calling itself 2.6
        "personality": _one_of(0, (0, 0xFFFF_FFFF, 0x0004_0000, 0x0002_0000), errno.EPERM),
        "prlimit64": _SPARING_THE_FIRST if own_processes else _one_of(0, (0,), errno.EPERM),
        **dict.fromkeys(_SCHEDULING, _SPARING_THE_FIRST),
        "setpriority": _PRIORITIES,
        "socketpair": _one_of(0, (socket.AF_UNIX,), errno.EAFNOSUPPORT),
        "socket": Rule(error(errno.EAFNOSUPPORT), _socket_clauses(own_network, sockets)),
    }


def _one_of(argument: int, values: tuple[int, ...], otherwise: int) -> Rule:
    return Rule(error(otherwise), (Clause((Match(argument, values),), ALLOW),))


def _nodes(mode: int) -> Rule:
    kinds = (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
    allowed = Clause((Match(mode, kinds, mask=0xF000),), ALLOW)
    return Rule(error(errno.EPERM), (allowed,))


def _socket_clauses(own_network: bool, sockets: bool) -> tuple[Clause, ...]:
    if not sockets:
        return ()
    local = Clause((Match(0, (socket.AF_UNIX,)),), ALLOW)
    if not own_network:
        return (local,)
    internet = Match(0, (socket.AF_INET, socket.AF_INET6))
    return (
        local,
        Clause(
            (
                internet,
                Match(1, (socket.SOCK_STREAM, socket.SOCK_DGRAM), mask=_SOCKET_TYPE),
                Match(2, (0, _TCP, _UDP)),
            ),
            ALLOW,
        ),
        # Rarer protocols would make the kernel load modules; raw sockets need a privilege.
        Clause((internet, Match(1, (socket.SOCK_RAW,), mask=_SOCKET_TYPE)), error(errno.EPERM)),
        Clause((internet,), error(errno.EPROTONOSUPPORT)),
        Clause((Match(0, (socket.AF_NETLINK,)), Match(2, (0,))), ALLOW),
    )
