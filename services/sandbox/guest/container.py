"""Container tier: no namespaces, but a user id of its own for each slot.

The slot stays root and unconfined. The program and everything it starts run as the slot's user, see
only the run's folders through Landlock, and are killed by their user id.
"""

import contextlib
import functools
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from services.sandbox.guest import accounting, helper, program, stack, syscalls
from services.sandbox.guest.layout import Configuration, RunLayout

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - swept after each run
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.01
_MAX_SHARED_FILES = 10_000
_MAX_REAPED = 1000
_LITTLE = 16
"""Share of the disk limit that every run may use, however little space is left."""


def take_over(root: str, user: int) -> None:
    """Make this process the slot of ``user``; kill and remove what an earlier slot left behind."""
    syscalls.adopt_orphans()
    kill_all(user)
    folder = _folder(root, user)
    if folder.exists():
        _remove(folder)
    _sweep_shared_memory(user)


class ContainedRun:
    """A run whose program waits, confined, for its request.

    ``control`` is the channel to the program, ``names`` the pipe into which it writes the names of
    the files to fetch, ``workspace`` its work directory and ``processes`` the host's /proc, all
    open. No look at it lasts beyond ``ends_at`` (monotonic).
    """

    listeners = ()
    sockets = ()

    @stack.hide_frames
    def __init__(self, configuration: Configuration, channel: socket.socket, user: int) -> None:
        self.user = user
        self.ends_at = math.inf
        self._folder = _folder(configuration.root, user)
        self.fork_bombs = accounting.ForkBombWatch(configuration.processes)
        self._ends_fork_bombs = configuration.samples_processes
        self.layout = self._make_folders()
        self.control, control = socket.socketpair()
        self.names, names = os.pipe()
        self.program = syscalls.fork()
        if self.program == 0:
            self.control.close()  # else the program would not notice that its slot is dead
            os.close(self.names)
            layout = self.layout
            become_confined = functools.partial(_confine, configuration, layout, user)
            program.main(control, channel, become_confined, layout, names)
        os.close(names)
        control.close()
        program.await_confined(self.control)
        self.workspace = os.open(self.layout.workspace, os.O_RDONLY | os.O_DIRECTORY)
        self.processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._opened_folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._inherited = accounting.own_anonymous_memory()
        self._unlinked = accounting.UnlinkedFileMonitor(self._find_unlinked)
        self._shared_memory = os.open(_SHARED_MEMORY, os.O_RDONLY | os.O_DIRECTORY)
        self._disk_space = accounting.SharedSpace(self._opened_folder)
        self._shared_memory_space = accounting.SharedSpace(self._shared_memory)

    def reap_orphans(self) -> None:
        """Reap those of its processes that have died without a parent: until then they still count
        as processes of its user."""
        with contextlib.suppress(ChildProcessError):
            for _ in range(_MAX_REAPED):
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if dead is None or dead.si_pid == self.program:  # `end` reaps the program
                    return
                os.waitpid(dead.si_pid, 0)

    def disk_is_filling(self) -> bool:
        """Whether runs have used much of the shared space since the last time this was True."""
        is_disk_going = self._disk_space.is_shrinking()
        return self._shared_memory_space.is_shrinking() or is_disk_going

    def exceeds_disk_limit(self, disk_bytes: int, inodes: int, *, afresh: bool) -> bool:
        """Whether it exceeds the limits, or holds more space than it leaves to all others.

        Files of every kind count; the count of unlinked ones may be stale unless ``afresh``.
        """
        little = disk_bytes // _LITTLE  # when others have used everything, a small one may stay
        most = min(disk_bytes, max(little, self._disk_space.left()))
        size, number = accounting.disk_usage(self._opened_folder, inodes)
        if size > most or number > inodes:
            return True
        unlinked = self._unlinked.found(afresh=afresh)
        shared = self._size_in_shared_memory() + unlinked.in_shared_memory
        return size + unlinked.disk > most or shared > max(little, self._shared_memory_space.left())

    def resident(self) -> accounting.Resident:
        """Memory of its processes; raises `ForkBomb`."""
        resident = accounting.resident_memory(self.processes, self.user)
        self.fork_bombs.check(resident)
        return resident

    def memory(self, limit: int, resident: accounting.Resident) -> int:
        """Bytes used by processes and shared memory; exact when above ``limit``."""
        in_files = self._size_in_shared_memory() + self._unlinked.found().memory
        memory = resident.exclusive(self._inherited)
        if memory is None and resident.memory + in_files > limit:
            found = self._run_as_user(lambda: str(self._private_memory(limit)))
            memory = None if found is None else int(found)
        return (resident.memory if memory is None else memory) + in_files

    def kill(self, seconds: float) -> bool:
        """Kill every process of the run; return whether to wait for `end` before the answer.

        False if they do not die within so many seconds, although nothing of them can run any more.
        """
        if not kill_all(self.user):
            return True  # they may still run: only `end` knows
        deadline = time.monotonic() + seconds
        while accounting.has_processes(self.user):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def end(self) -> program.Ended:
        """Kill every process, wait until all have died, and remove what other runs could see."""
        ended = self._end_processes()
        _sweep_shared_memory(self.user)
        return ended

    def _find_unlinked(self) -> accounting.UnlinkedFiles:
        found = self._run_as_user(
            lambda: accounting.unlinked_files(self.processes, self.user).as_text()
        )
        return self._unlinked.latest if found is None else accounting.UnlinkedFiles.of_text(found)

    def _run_as_user(self, task: Callable[[], str]) -> str | None:
        """Evaluate as its user; raises `ForkBomb` where no group prevents one."""
        look = self.resident if self._ends_fork_bombs else None
        return helper.answer_of(task, self.user, until=self.ends_at, meanwhile=look)

    def _size_in_shared_memory(self) -> int:
        return sum(_size(entry) for entry in _in_shared_memory(self.user))

    def _private_memory(self, limit: int) -> int:
        return accounting.private_memory(self.processes, self.user, limit)

    def _end_processes(self) -> program.Ended:
        ended = program.collect(self.program)
        if ended is not None and not _has_children():
            return ended  # nothing that it started is left: orphans become children of the slot
        kill_all(self.user)
        ended = ended or program.wait(self.program)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            kill_all(self.user)
            try:
                while True:
                    os.waitpid(-1, 0)  # orphans are reparented to this process
            except ChildProcessError:
                return ended
        raise TimeoutError(f"processes of the run did not end within {_END_SECONDS:.0f} s")

    def close(self) -> None:
        """Remove what the run left behind."""
        self.control.close()
        opened = (self.workspace, self.processes, self._opened_folder, self._shared_memory)
        for descriptor in (self.names, *opened):
            os.close(descriptor)
        _remove(self._folder)

    def _make_folders(self) -> RunLayout:
        folder = self._folder
        layout = RunLayout(str(folder / "workspace"), str(folder / "tmp"), str(_SHARED_MEMORY))
        folder.mkdir(mode=0o755)
        for place in (layout.workspace, layout.temporary):
            Path(place).mkdir(mode=0o700)
            os.chown(place, self.user, self.user)
        return layout


def _folder(root: str, user: int) -> Path:
    return Path(root) / str(user)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _size(entry: "os.DirEntry[str]") -> int:
    """Bytes of a file or a folder in shared memory."""
    with contextlib.suppress(OSError):  # it was removed or replaced in the meantime
        if not entry.is_dir(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_blocks * accounting.BLOCK
        folder = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return accounting.disk_usage(folder, _MAX_SHARED_FILES).size
        finally:
            os.close(folder)
    return 0


def _in_shared_memory(user: int) -> "Iterator[os.DirEntry[str]]":
    for entry in os.scandir(_SHARED_MEMORY):
        with contextlib.suppress(FileNotFoundError):  # entries of other runs come and go
            if entry.stat(follow_symlinks=False).st_uid == user:
                yield entry


def _sweep_shared_memory(user: int) -> None:
    for entry in _in_shared_memory(user):
        if entry.is_dir(follow_symlinks=False):
            _remove(Path(entry.path))
        else:
            Path(entry.path).unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    """Remove a folder recursively; raises OSError.

    By a program that handles trees of any depth, and that keeps their names out of this process,
    whose memory the next programs inherit.
    """
    command = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
    if os.waitpid(os.posix_spawn(command[0], command, {}), 0)[1]:
        raise OSError(f"{folder} could not be removed")


def kill_all(user: int) -> bool:
    """Kill every process of the user: only that user can reach them all with one call.

    Returns whether the signal certainly reached all of them.
    """
    return helper.answer_of(_kill_own, user) is not None


def _kill_own() -> str:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # spares its sender alone
    return "killed"


def end_user(user: int) -> None:
    """Kill the remaining processes of a dead slot; raises TimeoutError."""
    deadline = time.monotonic() + _END_SECONDS
    while accounting.has_processes(user):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of user {user} did not end")
        kill_all(user)


def _confine(configuration: Configuration, layout: RunLayout, user: int) -> tuple[int, ...]:
    program.confine(configuration, layout, user)
    return ()
