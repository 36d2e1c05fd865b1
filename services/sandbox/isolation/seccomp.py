"""The seccomp program of a tier: an allow-list of system calls for this architecture.

Calls of another ABI (32-bit x86, x32) kill the process; calls not on the list fail with ENOSYS. The
filter must be installed last, because it blocks installing another.
"""

import ctypes
import errno
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from services.contracts.errors import ConfigurationError
from services.sandbox.isolation.bpf import ALLOW, Rule, assemble, error
from services.sandbox.isolation.syscalls import (
    ALLOWED,
    PRIVATE_IPC,
    REFUSED,
    WITHOUT_EFFECT,
    argument_rules,
)
from services.sandbox.isolation.tier import Tier


@dataclass(frozen=True)
class _Machine:
    """An ABI: its AUDIT_ARCH constant, and numbers that do not belong to it."""

    architecture: int
    forbidden: range


_MACHINES = {
    # numbers with bit 30 are x32's; -1 is never valid, but programs try it
    "x86_64": _Machine(0xC000_003E, range(0x4000_0000, 0xFFFF_FFFF)),
    "aarch64": _Machine(0xC000_00B7, range(0)),
}


def compile_filter(tier: Tier, *, memory_counted: bool, machine: str | None = None) -> bytes:
    """Compile the filter to an array of ``struct sock_filter``.

    Programs of the container tier get socket pairs only, which carry no descriptors: nothing else
    would keep them from servers in the container, or from files that nobody can find. Without
    ``memory_counted`` (a memory cgroup), programs get no memory that belongs to no process and no
    file. ``machine`` is an architecture as printed by ``uname -m``. Raises `ConfigurationError` if
    it is unsupported or libseccomp is missing.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        known = ", ".join(_MACHINES)
        raise ConfigurationError(f"the sandbox supports {known}, not of {name}")
    full, convention = tier is Tier.FULL, _MACHINES[name]
    arguments = argument_rules(own_network=full, own_processes=full, sockets=full)
    rules = {
        **{name: Rule(ALLOW) for name in ALLOWED},
        **{name: Rule(ALLOW) for name in PRIVATE_IPC if full and memory_counted},
        **{name: Rule(error(errno.EPERM)) for name in REFUSED},
        **{name: Rule(error(0)) for name in WITHOUT_EFFECT},
        **arguments,
    }
    if not full:
        # Space is limited by sampling, which needs it to be taken no faster than it is written.
        rules["fallocate"] = Rule(error(errno.EOPNOTSUPP))
        # An unlinked file whose only descriptor is in transit through a socket cannot be found.
        rules |= dict.fromkeys(("sendmsg", "sendmmsg"), Rule(error(errno.EPERM)))
    return assemble(
        convention.architecture,
        _by_number(rules, convention.architecture),
        unknown=Rule(error(errno.ENOSYS)),
        forbidden=convention.forbidden,
    )


def _by_number(rules: Mapping[str, Rule], architecture: int) -> dict[int, Rule]:
    """Resolve names with libseccomp; calls that the architecture lacks are dropped."""
    try:
        resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except (OSError, AttributeError) as missing:
        raise ConfigurationError(
            "libseccomp is missing: install it (Debian and Ubuntu: apt-get install libseccomp2)"
        ) from missing
    resolve.argtypes, resolve.restype = (ctypes.c_uint32, ctypes.c_char_p), ctypes.c_int
    numbers = {resolve(architecture, name.encode()): rule for name, rule in rules.items()}
    return {number: rule for number, rule in numbers.items() if number >= 0}
