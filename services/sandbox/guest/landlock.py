"""Landlock: restricts the files, ports and signals of a process and its descendants.

It runs once in every program, so it is a handful of system calls. Rights unknown to an older kernel
are left out; see `abi`.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

# Access rights are bits; an ABI version knows the lowest N of them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_KNOWN_RIGHTS = (0, 13, 14, 15, 15, 16)  # ABI 0 to 5; later versions add none that is used here
_READ_EXECUTE = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_TCP_ABI, _SCOPE_ABI = 4, 6
_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

_RULESET = struct.Struct("=QQQ")  # rights over files, rights over ports, scopes
_RULE = struct.Struct("=Qi")  # rights, descriptor of the path
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4
_create_ruleset = _libc["syscall"]
_create_ruleset.argtypes = (ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint)
_add_rule = _libc["syscall"]
_add_rule.argtypes = (ctypes.c_long, *(ctypes.c_int,) * 2, ctypes.c_char_p, ctypes.c_uint)
_restrict_self = _libc["syscall"]
_restrict_self.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_uint)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all architectures


def abi() -> int:
    """The kernel's Landlock ABI version, 0 if it has none."""
    version: int = _create_ruleset(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return max(0, version)


def restrict(
    read_execute: Sequence[str],
    read_write: Sequence[str],
    *,
    scope: bool,
    deny_tcp: bool = False,
) -> None:
    """Deny this process every access to files except at and below the given paths.

    Missing paths are skipped; device nodes cannot be created anywhere. With ``scope``, signals and
    connections to abstract sockets cannot leave the domain; with ``deny_tcp``, no TCP port can be
    bound or connected to. Sets no_new_privs. Raises OSError, also if the kernel has no Landlock.
    """
    version = abi()
    rights = (1 << _KNOWN_RIGHTS[min(version, len(_KNOWN_RIGHTS) - 1)]) - 1
    ports = _BIND_AND_CONNECT if deny_tcp and version >= _TCP_ABI else 0
    scopes = _ABSTRACT_SOCKETS_AND_SIGNALS if scope and version >= _SCOPE_ABI else 0
    handled = _RULESET.pack(rights, ports, scopes)
    ruleset = _checked(_create_ruleset(_CREATE_RULESET, handled, len(handled), 0))
    try:
        for path in read_execute:
            _allow(ruleset, path, rights & _READ_EXECUTE)
        for path in read_write:
            _allow(ruleset, path, rights & ~(_MAKE_CHAR | _MAKE_BLOCK))
        _checked(_prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(_restrict_self(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if os.fstat(place).st_mode & 0o170000 != 0o040000:
            rights &= _OF_A_FILE
        _checked(_add_rule(_ADD_RULE, ruleset, _PATH_BENEATH, _RULE.pack(rights, place), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, os.strerror(number))
    return result
