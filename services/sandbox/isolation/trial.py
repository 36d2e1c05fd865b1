"""Tries a tier: confines a process the way runs are, and reports the step that failed.

    python -m services.sandbox.isolation.trial TIER FOLDER USER FILTER

FOLDER is empty and may be written to. USER is the user id that programs have outside of the
sandbox, ``own`` to keep this process's; FILTER is the seccomp program in hexadecimal. On failure,
the failed step is printed.
"""

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from services.sandbox.guest import helper, landlock, namespaces, syscalls
from services.sandbox.guest.layout import Configuration
from services.sandbox.guest.network import SlotNetwork
from services.sandbox.isolation.tier import Tier

_DEVICES = ["/dev/null", "/dev/zero"]


def try_full(folder: str, user: int | None, seccomp: bytes) -> None:
    """Do what a zygote and a run do, irreversibly. Raises OSError."""
    configuration = Configuration(
        tier=Tier.FULL,
        root=folder,
        visible=[],
        readable=[],
        writable=[],
        links={},
        files={},
        devices=_DEVICES,
        host_user=user,
        seccomp=seccomp,
        scoped=True,
        disk_bytes=1 << 20,
        inodes=64,
        processes=8,
        open_files=64,
        sampled_memory=False,
        sampled_crowds=False,
    )
    namespaces.enter_root(configuration)
    own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
    channel, _ = socket.socketpair()
    network = SlotNetwork()
    run = namespaces.NamespacedRun(configuration, channel, own_pid_namespace, network)
    run.end()
    run.close()


def try_container(folder: str, user: int, seccomp: bytes) -> None:
    """Do what a slot and its run do as ``user``. Raises OSError."""
    Path(folder).chmod(0o711)
    place = Path(folder, "place")
    place.mkdir(mode=0o700)
    os.chown(place, user, user)
    pid = os.fork()
    if pid == 0:
        _as_child(lambda: _confine_as(user, str(place), seccomp))
    _join(pid)
    (place / "made").rmdir()


def _confine_as(user: int, place: str, seccomp: bytes) -> None:
    helper.become(user)
    _confine([place], seccomp)
    Path(place, "made").mkdir()


def _confine(places: list[str], seccomp: bytes) -> None:
    syscalls.renounce_privileges()
    landlock.restrict([], [*places, *_DEVICES], scope=True, deny_tcp=True)
    syscalls.install_filter(seccomp)


def _as_child(task: Callable[[], None]) -> NoReturn:
    try:
        task()
    except OSError as error:
        _exit_with(error)
    os._exit(0)


def _join(pid: int) -> None:
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        raise OSError(errno.EPERM, f"a confined process was killed by signal {os.WTERMSIG(status)}")
    if status:
        os._exit(1)  # the child has printed the reason


def _exit_with(error: OSError) -> NoReturn:
    # Import nothing here: the file system may be out of reach.
    os.write(1, str(error).encode())
    os._exit(1)


def _main(tier: str, folder: str, user: str, seccomp: str) -> None:
    number = None if user == "own" else int(user)
    try:
        if Tier(tier) is Tier.FULL:
            try_full(folder, number, bytes.fromhex(seccomp))
        elif number is not None:
            try_container(folder, number, bytes.fromhex(seccomp))
        else:
            raise PermissionError(errno.EPERM, "only root can give every slot a user id")
    except OSError as error:
        _exit_with(error)


if __name__ == "__main__":
    _main(*sys.argv[1:])
