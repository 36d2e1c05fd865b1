"""A run of the full tier: namespaces of its own over the minimal root."""

import os
import signal
import socket
from pathlib import Path

from services.sandbox.guest import accounting, program, reaper, root, stack, syscalls
from services.sandbox.guest.confinement import confine
from services.sandbox.guest.layout import PLACES, PROXY_PORT, Configuration
from services.sandbox.guest.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_REC,
)

_OF_A_RUN = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
_BACKLOG = 128


class NamespacedRun:
    """A run whose program waits, confined, for its order.

    ``orders`` leads to the program. ``workspace`` is its work directory and ``processes`` its
    /proc, both open; ``listeners`` are sockets of its network, for the service. Everything of the
    run ends with this process.
    """

    places = PLACES
    user = None

    @stack.unseen
    def __init__(
        self, configuration: Configuration, channel: socket.socket, own_pid_namespace: int
    ) -> None:
        self._inherited = accounting.own_memory() if configuration.sampled_memory else 0
        pipe, self._alive = os.pipe()
        syscalls.unshare(CLONE_NEWPID)
        self._reaper = _start_reaper(pipe)
        os.close(pipe)
        self.orders, orders = socket.socketpair()
        self.program = syscalls.fork()
        if self.program == 0:
            os.close(self._alive)
            program.main(orders, channel, lambda: _enter_run(configuration), PLACES)
        orders.close()
        syscalls.enter_pid_namespace(own_pid_namespace)
        self.workspace, self.processes, *self.listeners = program.await_confined(self.orders)
        self._nameless = accounting.NamelessWatch(
            lambda: accounting.nameless_files(self.processes, None)
        )

    def memory(self, limit: int) -> int:
        """Bytes in use by processes and files; exact when above ``limit``."""
        used = os.fstatvfs(self.workspace)
        # With removed files that are open; only those of no folder have yet to be found.
        files = (used.f_blocks - used.f_bfree) * used.f_frsize
        files += self._nameless.found().memory
        resident = accounting.resident_memory(self.processes, None)
        memory = resident.certain(self._inherited)
        if memory is None and resident.memory + files > limit:
            memory = accounting.private_memory(self.processes, None, limit)
        return (resident.memory if memory is None else memory) + files

    def files(self, _most: int) -> accounting.Files:
        """Nothing to watch: the kernel bounds the files of this tier."""
        return accounting.Files(0, 0)

    def end(self) -> program.Ended:
        """End every process of the run."""
        os.kill(self._reaper, signal.SIGKILL)
        ended = program.wait(self.program)
        os.waitpid(self._reaper, 0)  # returns when the namespace is empty
        return ended

    def close(self) -> None:
        """Let go of what the run left behind, so that the kernel removes it."""
        self.orders.close()
        for descriptor in (self._alive, self.workspace, self.processes):
            os.close(descriptor)


def _start_reaper(pipe: int) -> int:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, pipe, number) for number in range(3)]
        return os.posix_spawn(reaper.PATH, ["reaper"], {}, file_actions=streams)
    finally:
        signal.signal(signal.SIGCHLD, before)


def _enter_run(configuration: Configuration) -> tuple[int, ...]:
    """Make the namespaces and private places of this process, a program, and confine it."""
    user, group = os.getuid(), os.getgid()
    syscalls.unshare(_OF_A_RUN)
    syscalls.bring_up_loopback()
    listeners = (_listen(PROXY_PORT),) if configuration.proxied else ()
    syscalls.set_host_name("sandbox")
    limits = f"size={configuration.disk_bytes},nr_inodes={configuration.inodes},mode=755"
    syscalls.mount("private", root.BUILD, "tmpfs", MS_NOSUID | MS_NODEV, limits)
    for number, place in enumerate(PLACES):
        os.mkdir(f"{root.BUILD}/{number}", 0o700)  # noqa: PTH102 - of a constant
        syscalls.mount(f"{root.BUILD}/{number}", place, "", MS_BIND)
    syscalls.detach(root.BUILD)
    for number, path in enumerate(configuration.covered):
        root.make_like(Path(f"{root.ASIDE}/{number}"), Path(path))
        syscalls.mount(f"{root.ASIDE}/{number}", path, "", MS_BIND | MS_REC)
    syscalls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    handed_over = (
        os.open(PLACES.workspace, os.O_RDONLY | os.O_DIRECTORY),
        os.open("/proc", os.O_RDONLY | os.O_DIRECTORY),
        *listeners,
    )
    # Last: what it owns no more, the mounts and the network, no program can change.
    syscalls.unshare(CLONE_NEWUSER)
    root.map_user(user, group)
    confine(configuration, PLACES, None)
    return handed_over


def _listen(port: int) -> int:
    return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG).detach()
