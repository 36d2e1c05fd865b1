"""Builds a pool: which paths programs see, and how they are confined."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.sandbox.guest.layout import USER, Configuration
from services.sandbox.isolation.cgroups import Cgroups
from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import Isolation
from services.sandbox.network.proxy import Network
from services.sandbox.pool.pool import Capacity, Pool, make_folder
from services.sandbox.pool.zygote import ALL, Profile

_BYTES_OF_A_FILE = 8 << 10
_MAX_FILES = 1 << 15
_MAX_SAMPLED_FILES = 1 << 14  # so that all can be sampled before the space is used up
_DISK_SHARE = 0.8  # the rest absorbs what is written between two samples


def create_pool(
    python: Path,
    isolation: Isolation,
    cgroups: Cgroups,
    capacity: Capacity,
    toolchains: Iterable[str] = (),
    network: Network | None = None,
    devices: Iterable[str] = (),
    first_number: int = 0,
    profiles: Sequence[Profile] = ALL,
) -> Pool:
    """Create a pool that runs ``python``.

    Programs can also read ``toolchains`` and use ``devices``; ``network`` is their access in the
    full tier; ``first_number`` and ``profiles`` are those of `Pool`. Raises `ConfigurationError` if
    programs could not reach the visible paths.
    """
    full = isolation.tier is Tier.FULL
    first_user = USER if full else isolation.first_user
    visible = visible_paths(python, toolchains)
    usable = [*DEVICES, *devices]
    if not full:
        _check_reachable(visible)
    root = make_folder()
    disk_bytes = capacity.disk_bytes if full else _disk_share(root, capacity)
    configuration = Configuration(
        tier=isolation.tier.value,
        root=str(root),
        visible=visible,
        readable=["/"] if full else [*visible, *SYSTEM, *PROCESS_INFORMATION],
        # In the minimal root /dev holds only these devices and shared memory.
        writable=["/dev"] if full else usable,
        links=links(),
        files=FILES,
        devices=usable,
        host_user=isolation.first_user,
        seccomp=isolation.seccomp_filter,
        scoped=isolation.scoped,
        disk_bytes=disk_bytes,
        inodes=min(_MAX_FILES if full else _MAX_SAMPLED_FILES, disk_bytes // _BYTES_OF_A_FILE),
        processes=capacity.processes,
        open_files=capacity.open_files,
        sampled_memory=not isolation.memory_counted,
        sampled_crowds=not {Controller.CPU, Controller.PIDS} <= cgroups.controllers,
        proxied=network is not None,
    )
    return Pool(
        python,
        configuration,
        cgroups,
        first_user=None if isolation.first_user is None else first_user,
        capacity=capacity,
        network=network,
        first_number=first_number,
        profiles=profiles,
    )


def _disk_share(folder: Path, capacity: Capacity) -> int:
    """A program's disk limit on a shared file system, so that none can use up another's space."""
    system = os.statvfs(folder)
    share = system.f_bavail * system.f_frsize // (capacity.busy or capacity.programs)
    return min(capacity.disk_bytes, int(share * _DISK_SHARE))


def _check_reachable(paths: Iterable[str]) -> None:
    for path in map(Path, paths):
        closed = [str(folder) for folder in path.parents if not folder.stat().st_mode & 0o001]
        if closed:
            raise ConfigurationError(
                f"programs run under their own user ids and cannot reach {path}: "
                f"{closed[-1]} is closed to others"
            )


SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""System folders; some are symbolic links into /usr."""

CONFIGURATION = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/fonts", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/mime.types"),
)
"""The parts of /etc that programs need and that reveal nothing about this machine."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/var/tmp": "/tmp",  # noqa: S108 - private to the run
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
"""Files of the host's /proc, where a run has no private one."""


def visible_paths(python: Path, toolchains: Iterable[str]) -> list[str]:
    """The existing paths that programs see: the system's, the interpreter's, and ``toolchains``."""
    paths = (*SYSTEM, *CONFIGURATION, *_interpreter(python), *toolchains)
    shown: list[str] = []
    for path in sorted({path for path in paths if os.path.exists(path)}):  # noqa: PTH110 - paths are strings here
        inside = any(path.startswith(f"{folder}/") for folder in shown)
        if not inside and not (path in SYSTEM and os.path.islink(path)):  # noqa: PTH114 - paths are strings here
            shown.append(path)
    return shown


def links() -> dict[str, str]:
    """The symbolic links of the minimal root, by path."""
    system = {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)}  # noqa: PTH114, PTH115 - paths are strings here
    return {**LINKS, **system}


def _interpreter(python: Path) -> tuple[str, str]:
    """The virtual environment of ``python`` and its base installation."""
    return str(python.parents[1]), str(python.resolve().parents[1])
