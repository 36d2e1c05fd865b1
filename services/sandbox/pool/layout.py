"""What programs see of the machine: a read-only choice of it, and nothing else."""

import os
from collections.abc import Iterable
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Folders of the distribution; some are links into /usr."""

CONFIGURATION = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/mime.types"),
)
"""Of /etc, what programs need and tells them nothing of this machine."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/var/tmp": "/tmp",  # noqa: S108 - the run's own
}

FILES = {
    "/etc/passwd": "root:x:0:0::/root:/sbin/nologin\nsandbox:x:1000:1000::/workspace:/bin/bash\n",
    "/etc/group": "root:x:0:\nsandbox:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/hostname": "sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

PROCESS_INFORMATION = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime"),
    *("/proc/version", "/proc/filesystems", "/proc/sys/kernel/osrelease"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/pid_max"),
)
"""Of the machine's /proc, where there is no private one."""


def visible_paths(python: Path, toolchains: Iterable[str]) -> list[str]:
    """The existing paths to show: the system's, the interpreter's, and those of ``toolchains``."""
    paths = (*SYSTEM, *CONFIGURATION, *_interpreter(python), *toolchains)
    shown: list[str] = []
    for path in sorted({path for path in paths if os.path.exists(path)}):  # noqa: PTH110
        inside = any(path.startswith(f"{folder}/") for folder in shown)
        if not inside and not (path in SYSTEM and os.path.islink(path)):  # noqa: PTH114
            shown.append(path)
    return shown


def links() -> dict[str, str]:
    """The links of the minimal root, by path."""
    system = {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)}  # noqa: PTH114, PTH115
    return {**LINKS, **system}


def _interpreter(python: Path) -> tuple[str, str]:
    """The environment of ``python`` and the installation that it was made from."""
    return str(python.parents[1]), str(python.resolve().parents[1])
