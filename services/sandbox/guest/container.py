"""A run of the container tier: no namespaces can be made, so every slot has a user id of its own.

The slot stays root and outside of what it confines: the program and all it starts run as the
slot's user, see the run's folders alone through Landlock, and are killed by that user id.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from services.sandbox.guest import accounting, program, stack, syscalls
from services.sandbox.guest.confinement import confine
from services.sandbox.guest.layout import Configuration, Places

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - swept after each run
_END_SECONDS = 10.0
_MOST_SHARED_FILES = 10_000


class ContainedRun:
    """A run whose program waits, confined, for its order.

    ``orders`` leads to the program. ``workspace`` is its work directory and ``processes`` /proc,
    both open.
    """

    listeners = ()

    @stack.unseen
    def __init__(self, configuration: Configuration, channel: socket.socket, user: int) -> None:
        self.user = user
        self._folder = Path(configuration.root) / str(user)
        syscalls.adopt_orphans()
        kill_all(user)
        self._sweep()
        self.places = self._make_places()
        self.orders, orders = socket.socketpair()
        self.program = syscalls.fork()
        if self.program == 0:
            places = self.places
            program.main(orders, channel, lambda: _confine(configuration, places, user), places)
        orders.close()
        program.await_confined(self.orders)
        self.workspace = os.open(self.places.workspace, os.O_RDONLY | os.O_DIRECTORY)
        self.processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._opened_folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._inherited = accounting.own_memory()
        self._nameless = accounting.NamelessWatch(self._find_nameless)

    def memory(self, limit: int) -> int:
        """Bytes in use by processes and shared memory; exact when above ``limit``."""
        in_files = sum(_size(entry) for entry in self._in_shared_memory())
        in_files += self._nameless.found().memory
        resident = accounting.resident_memory(self.processes, self.user)
        memory = resident.certain(self._inherited)
        if memory is None and resident.memory + in_files > limit:
            memory = int(self._as_user(lambda: str(self._private_memory(limit))))
        return (resident.memory if memory is None else memory) + in_files

    def files(self, most: int) -> accounting.Files:
        """What lies in the run's folders, or did and is still open."""
        size, number = accounting.files_below(self._opened_folder, most)
        return accounting.Files(size + self._nameless.found().disk, number)

    def end(self) -> program.Ended:
        """End every process of the run, and remove what others could see of it."""
        ended = self._end_processes()
        self._sweep_shared_memory()
        return ended

    def _find_nameless(self) -> accounting.Nameless:
        found = self._as_user(
            lambda: "{} {}".format(*accounting.nameless_files(self.processes, self.user))
        )
        return accounting.Nameless(*map(int, found.split()))

    def _private_memory(self, limit: int) -> int:
        return accounting.private_memory(self.processes, self.user, limit)

    def _as_user(self, tell: Callable[[], str]) -> str:
        """Have a fork look that is of the user: no other may look into the processes."""
        read_end, write_end = os.pipe()
        child = syscalls.fork()
        if child == 0:
            try:
                become(self.user)
                os.write(write_end, tell().encode())
            finally:
                os._exit(0)
        os.close(write_end)
        os.waitpid(child, 0)
        with open(read_end) as pipe:
            return pipe.read()

    def _end_processes(self) -> program.Ended:
        kill_all(self.user)
        ended = program.wait(self.program)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            kill_all(self.user)
            try:
                while True:
                    os.waitpid(-1, 0)  # orphans come to this process
            except ChildProcessError:
                return ended
        raise TimeoutError(f"processes of the run did not end within {_END_SECONDS:.0f} s")

    def close(self) -> None:
        """Remove what the run left behind."""
        self.orders.close()
        for descriptor in (self.workspace, self.processes, self._opened_folder):
            os.close(descriptor)
        self._sweep()

    def _make_places(self) -> Places:
        folder = self._folder
        places = Places(str(folder / "workspace"), str(folder / "tmp"), str(_SHARED_MEMORY))
        folder.mkdir(mode=0o755)
        for place in (places.workspace, places.temporary):
            Path(place).mkdir(mode=0o700)
            os.chown(place, self.user, self.user)
        return places

    def _sweep(self) -> None:
        if self._folder.exists():
            _remove(self._folder)
        self._sweep_shared_memory()

    def _sweep_shared_memory(self) -> None:
        for entry in self._in_shared_memory():
            if entry.is_dir(follow_symlinks=False):
                _remove(Path(entry.path))
            else:
                Path(entry.path).unlink(missing_ok=True)

    def _in_shared_memory(self) -> "Iterator[os.DirEntry[str]]":
        for entry in os.scandir(_SHARED_MEMORY):
            with contextlib.suppress(FileNotFoundError):  # others come and go there
                if entry.stat(follow_symlinks=False).st_uid == self.user:
                    yield entry


def _size(entry: "os.DirEntry[str]") -> int:
    """Bytes of a file, or of all that is in a folder, of shared memory."""
    with contextlib.suppress(OSError):  # it was removed, or replaced, meanwhile
        if not entry.is_dir(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_blocks * accounting.BLOCK
        folder = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return accounting.files_below(folder, _MOST_SHARED_FILES).size
        finally:
            os.close(folder)
    return 0


def _remove(folder: Path) -> None:
    # rm finds its way in a tree that is deeper than Python's recursion.
    command = ["/bin/rm", "-rf", "--one-file-system", "--", str(folder)]
    subprocess.run(command, check=True)


def become(user: int) -> None:
    """Turn this process into the slot's user for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def kill_all(user: int) -> None:
    """End every process of the user, however it hid: only one of that user can reach them all."""
    child = os.fork()
    if child == 0:
        try:
            become(user)
            os.kill(-1, signal.SIGKILL)  # spares its sender alone
        except ProcessLookupError:
            pass
        finally:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):  # a zygote leaves its children to the kernel
        os.waitpid(child, 0)


def end_user(user: int) -> None:
    """End what is left of a slot that died; raises TimeoutError."""
    deadline = time.monotonic() + _END_SECONDS
    while accounting.has_processes(user):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of user {user} did not end")
        kill_all(user)


def _confine(configuration: Configuration, places: Places, user: int) -> tuple[int, ...]:
    confine(configuration, places, user)
    return ()
