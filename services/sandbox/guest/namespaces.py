"""Full tier: the minimal root of a zygote, and the namespaces of each run."""

import functools
import math
import os
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from services.sandbox.guest import accounting, helper, program, reaper, stack, syscalls
from services.sandbox.guest.layout import LAYOUT, PROXY_PORT, USER, USERS, Configuration
from services.sandbox.guest.network import SlotNetwork
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
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
)

_OF_A_RUN = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS
_BACKLOG = 128


class NamespacedRun:
    """A run whose program waits, confined, for its request.

    ``control`` is the channel to the program, ``names`` the pipe into which it writes the names of
    the files to fetch, ``workspace`` its work directory and ``processes`` its /proc, all open;
    ``listeners`` are sockets in its network for the service, and it asks ``sockets`` before it
    opens some, see `network.watch_sockets`. Everything of the run dies with this process. No look
    at it lasts beyond ``ends_at`` (monotonic).
    """

    layout = LAYOUT
    user = None

    @stack.hide_frames
    def __init__(
        self,
        configuration: Configuration,
        channel: socket.socket,
        own_pid_namespace: int,
        network: SlotNetwork,
    ) -> None:
        network.prepare()
        self.fork_bombs = accounting.ForkBombWatch(configuration.processes)
        self._inherited = accounting.own_anonymous_memory() if configuration.sampled_memory else 0
        pipe, self._alive = os.pipe()
        syscalls.unshare(CLONE_NEWPID)
        self._reaper = _start_reaper(pipe)
        os.close(pipe)
        self.control, control = socket.socketpair()
        self.names, names = os.pipe()
        self.program = syscalls.fork()
        if self.program == 0:
            self.control.close()  # else the program would not notice that its slot is dead
            for descriptor in (self._alive, self.names):
                os.close(descriptor)
            enter = functools.partial(_enter_run, configuration, network)
            program.main(control, channel, enter, LAYOUT, names)
        os.close(names)
        control.close()
        syscalls.enter_pid_namespace(own_pid_namespace)
        self.workspace, self.processes, *others = program.await_confined(self.control)
        self.listeners, self.sockets = (others, []) if configuration.proxied else ([], others)
        if not self.sockets:
            network.mark_used()
        self.ends_at = math.inf
        self._unlinked = accounting.UnlinkedFileMonitor(self._find_unlinked)

    def resident(self) -> accounting.Resident:
        """Memory of its processes; raises `ForkBomb`."""
        resident = accounting.resident_memory(self.processes, None)
        self.fork_bombs.check(resident)
        return resident

    def memory(self, limit: int, resident: accounting.Resident) -> int:
        """Bytes used by processes and files; exact when above ``limit``."""
        used = os.fstatvfs(self.workspace)
        # Includes unlinked files of the tmpfs; only files of no file system must be searched for.
        files = (used.f_blocks - used.f_bfree) * used.f_frsize
        files += self._unlinked.found().memory
        memory = resident.exclusive(self._inherited)
        if memory is None and resident.memory + files > limit:
            found = self._look_closely(
                lambda: str(accounting.private_memory(self.processes, None, limit))
            )
            memory = None if found is None else int(found)
        return (resident.memory if memory is None else memory) + files

    def _find_unlinked(self) -> accounting.UnlinkedFiles:
        found = self._look_closely(
            lambda: accounting.unlinked_files(self.processes, None).as_text()
        )
        return self._unlinked.latest if found is None else accounting.UnlinkedFiles.of_text(found)

    def _look_closely(self, task: Callable[[], str]) -> str | None:
        """Inspect processes in a fork, which may wait long for them; raises `ForkBomb`."""
        return helper.answer_of(task, None, until=self.ends_at, meanwhile=self.resident)

    def reap_orphans(self) -> None:
        """No-op: the namespace's init process adopts orphans, and the kernel reaps its children."""

    def disk_is_filling(self) -> bool:
        """Never: it does not share space."""
        return False

    def exceeds_disk_limit(self, _disk_bytes: int, _inodes: int, *, afresh: bool) -> bool:  # noqa: ARG002 - the slot's interface
        """Never: its tmpfs bounds its files."""
        return False

    def kill(self, seconds: float) -> bool:
        """Kill every process of the run; return whether to wait for `end` before the answer.

        False if they do not die within so many seconds, although nothing of them can run any more.
        """
        os.kill(self._reaper, signal.SIGKILL)
        reaper = os.pidfd_open(self._reaper)  # it dies last
        try:
            return bool(select.select([reaper], [], [], seconds)[0])
        finally:
            os.close(reaper)

    def end(self) -> program.Ended:
        """Kill every process of the run, and wait until all have died."""
        os.kill(self._reaper, signal.SIGKILL)
        ended = program.wait(self.program)
        os.waitpid(self._reaper, 0)  # returns when the namespace is empty
        return ended

    def close(self) -> None:
        """Drop the last references to the run, so that the kernel frees it."""
        self.control.close()
        for descriptor in (self._alive, self.names, self.workspace, self.processes, *self.sockets):
            os.close(descriptor)


def _start_reaper(pipe: int) -> int:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, pipe, number) for number in range(3)]
        return os.posix_spawn(reaper.PATH, ["reaper"], {}, file_actions=streams)
    finally:
        signal.signal(signal.SIGCHLD, before)


def _enter_run(configuration: Configuration, network: SlotNetwork) -> tuple[int, ...]:
    """Create the namespaces and private folders of this process, a program, and confine it."""
    user, group = os.getuid(), os.getgid()
    syscalls.unshare(_OF_A_RUN)
    network.enter()
    listeners = (_listen(PROXY_PORT),) if configuration.proxied else ()
    syscalls.set_host_name("sandbox")
    limits = f"size={configuration.disk_bytes},nr_inodes={configuration.inodes},mode=755"
    syscalls.mount("private", BUILD, "tmpfs", MS_NOSUID | MS_NODEV, limits)
    for number, place in enumerate(LAYOUT):
        os.mkdir(f"{BUILD}/{number}", 0o700)  # noqa: PTH102 - a constant
        syscalls.mount(f"{BUILD}/{number}", place, "", MS_BIND)
    syscalls.detach(BUILD)
    for number, path in enumerate(configuration.covered):
        make_like(Path(f"{ASIDE}/{number}"), Path(path))
        syscalls.mount(f"{ASIDE}/{number}", path, "", MS_BIND | MS_REC)
    syscalls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    handed_over = (
        os.open(LAYOUT.workspace, os.O_RDONLY | os.O_DIRECTORY),
        os.open("/proc", os.O_RDONLY | os.O_DIRECTORY),
        *listeners,
    )
    # Last: mounts and network belong to the outer user namespace, so no program can change them.
    syscalls.unshare(CLONE_NEWUSER)
    map_user(user, group)
    sockets = program.confine(configuration, LAYOUT, None)
    return handed_over if sockets is None else (*handed_over, sockets)


def _listen(port: int) -> int:
    return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG).detach()


ASIDE = "/.aside"
"""Where runs find the paths that their private mounts cover."""

BUILD = "/run"
"""The folder of the root where a run builds its private folders."""

_WITHOUT_PEERS = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID


def enter_root(configuration: Configuration) -> None:
    """Move this process, a zygote, into namespaces over the minimal root; raises OSError.

    The root holds what ``configuration`` names and nothing else. Returns in a fork, the init
    process of the pid namespace: when it dies, all slots and runs die.
    """
    if configuration.host_user is None:
        user, group = os.getuid(), os.getgid()
        syscalls.unshare(CLONE_NEWUSER | CLONE_NEWNS)
        map_user(user, group)
        _build_root(configuration)
        syscalls.unshare(_WITHOUT_PEERS)
        _become_first_process()
        return
    # As root, build the tree first: some paths may be accessible to root only.
    os.setgroups([])
    syscalls.unshare(CLONE_NEWNS)
    _build_root(configuration)
    _enter_user_namespace_as(configuration.host_user)
    _become_first_process()


def _build_root(configuration: Configuration) -> None:
    root = configuration.root
    syscalls.mount("none", "/", "", MS_REC | MS_PRIVATE)
    syscalls.mount("root", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path in ("/dev", "/proc", "/etc", BUILD, *LAYOUT):
        Path(root + path).mkdir(parents=True, exist_ok=True)
    for place in LAYOUT:  # some packages look for shared memory on import
        syscalls.mount("warm-up", root + place, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=1777")
    for path in configuration.visible:
        _show(path, root)
        syscalls.restrict_mount(
            root + path,
            syscalls.MOUNT_READ_ONLY | syscalls.MOUNT_NOSUID | syscalls.MOUNT_NODEV,
        )
    for path in configuration.devices:
        _show(path, root)
    for number, path in enumerate(configuration.covered):
        aside = Path(f"{root}{ASIDE}/{number}")
        make_like(Path(path), aside)
        syscalls.mount(root + path, str(aside), "", MS_BIND | MS_REC)
    for path, target in configuration.links.items():
        Path(root + path).parent.mkdir(parents=True, exist_ok=True)
        Path(root + path).symlink_to(target)
    for path, text in configuration.files.items():
        Path(root + path).write_text(text)
    executable = Path(root + reaper.PATH)
    executable.write_bytes(reaper.executable())
    executable.chmod(0o111)  # nobody can inspect a process whose executable is not readable
    # Slots need this /proc for themselves; a run mounts its own over it.
    syscalls.mount("/proc", root + "/proc", "", MS_BIND | MS_REC)
    syscalls.pivot_root(root)
    syscalls.mount("none", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY)


def become(user: int) -> None:
    """Give a slot a user id of its own: the kernel accounts pipes, watches and more by user."""
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    syscalls.set_dumpable(True)  # changing the user cleared it, and with it access to /proc/self


def map_user(user: int, group: int) -> None:
    """Map the program's user id in this process's new user namespace to an outer one."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{USER} {user} 1")
    _write("/proc/self/gid_map", f"{USER} {group} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _become_first_process() -> None:
    child = os.fork()
    if child == 0:
        syscalls.die_with_parent()
        return
    syscalls.die_with_parent()  # again: changing the user cleared it
    syscalls.close_from(3)  # above all the channel: it now belongs to the fork
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def _enter_user_namespace_as(host_user: int) -> None:
    # Mapping another user requires root in the outer namespace: a fork waits there.
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)  # or it would wait for a parent that failed and exited
        if not os.read(ready, 1):
            os._exit(1)
        for kind in ("uid_map", "gid_map"):
            _write(f"/proc/{os.getppid()}/{kind}", f"{USER} {host_user} {USERS}")
        os._exit(0)
    syscalls.unshare(CLONE_NEWUSER | CLONE_NEWNS | _WITHOUT_PEERS)
    os.write(go, b"+")
    os.close(ready)
    os.close(go)
    if os.waitpid(child, 0)[1]:
        raise OSError("the user namespace's id map was not written")
    become(USER)


def _show(path: str, root: str) -> None:
    target = Path(root + path)
    make_like(Path(path), target)
    syscalls.mount(path, str(target), "", MS_BIND | MS_REC)


def make_like(source: Path, target: Path) -> None:
    """Create a mount point of the same kind."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
