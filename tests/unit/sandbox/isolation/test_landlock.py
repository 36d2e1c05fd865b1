"""Under a Landlock ruleset a process reaches only the given paths."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.sandbox.guest import landlock
from tests.support.programs.confined import in_fork

pytestmark = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
needs_tcp = pytest.mark.skipif(landlock.abi() < 4, reason="Landlock ABI 4 is needed")
needs_scopes = pytest.mark.skipif(landlock.abi() < 6, reason="Landlock ABI 6 is needed")

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")


class Folders:
    """A folder to read, one to write, one that is neither."""

    def __init__(self, root: Path) -> None:
        self.readable, self.writable, self.hidden = (
            root / name for name in ("readable", "writable", "hidden")
        )
        for folder in (self.readable, self.writable, self.hidden):
            folder.mkdir()
            (folder / "file").write_text(folder.name)

    def confined(self, task: Callable[[], Any], **options: bool) -> Any:
        """Run ``task`` where the folders are all there is, beside the system's."""

        def confine_and_run() -> Any:
            landlock.restrict(
                [str(self.readable), *SYSTEM], [str(self.writable)], scope=True, **options
            )
            return task()

        return in_fork(confine_and_run)

    def refused(self, task: Callable[[], Any], **options: bool) -> bool:
        """Whether ``task`` may not do what it does."""
        try:
            self.confined(task, **options)
        except PermissionError:
            return True
        return False


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_only_the_given_paths_are_readable(folders: Folders) -> None:
    assert folders.confined((folders.readable / "file").read_text) == "readable"
    assert folders.confined((folders.writable / "file").read_text) == "writable"
    assert folders.refused((folders.hidden / "file").read_text)
    assert folders.refused(lambda: list(folders.hidden.iterdir()))
    assert folders.refused(lambda: list(Path("/").iterdir()))


def test_links_do_not_lead_outside(folders: Folders) -> None:
    link = folders.writable / "link"
    link.symlink_to(folders.hidden / "file")

    assert folders.refused(link.read_text)


def test_only_the_writable_folder_can_be_written_to(folders: Folders) -> None:
    folders.confined(lambda: (folders.writable / "new").write_text("x"))

    assert (folders.writable / "new").read_text() == "x"
    assert folders.refused(lambda: (folders.readable / "new").write_text("x"))
    assert folders.refused(lambda: (folders.readable / "file").write_text("x"))
    assert folders.refused((folders.readable / "file").unlink)
    assert (folders.readable / "file").read_text() == "readable"


def test_files_can_be_moved_within_the_writable_folder(folders: Folders) -> None:
    def move() -> str:
        inner = folders.writable / "inner"
        inner.mkdir()
        return (folders.writable / "file").rename(inner / "file").read_text()

    assert folders.confined(move) == "writable"


def test_even_root_cannot_create_device_nodes(folders: Folders) -> None:
    node = folders.writable / "node"

    assert folders.refused(lambda: os.mknod(node, 0o020666, os.makedev(1, 3)))
    folders.confined(lambda: os.mkfifo(node))
    assert node.is_fifo()


def test_files_in_the_writable_folder_can_be_executed(folders: Folders) -> None:
    program = shutil.copy(shutil.which("true") or "/bin/true", folders.writable)
    hidden = shutil.copy(program, folders.hidden)

    assert folders.confined(lambda: subprocess.run([program], check=True).returncode) == 0
    assert folders.refused(lambda: subprocess.run([hidden], check=True))


def test_single_files_are_allowed_and_missing_paths_skipped(folders: Folders) -> None:
    def read() -> str:
        landlock.restrict(
            ["/no/such/path"], [str(folders.hidden / "file"), "/dev/null"], scope=False
        )
        Path("/dev/null").write_text("x")
        return (folders.hidden / "file").read_text()

    assert in_fork(read) == "hidden"


def test_children_are_confined_and_gain_no_privileges(folders: Folders) -> None:
    command = ["/bin/cat", str(folders.hidden / "file")]

    def run() -> str:
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        return done.stderr

    def no_new_privileges() -> str:
        landlock.restrict(["/proc"], [], scope=False)
        return Path("/proc/self/status").read_text()

    assert "Permission denied" in folders.confined(run)
    assert "NoNewPrivs:\t1" in in_fork(no_new_privileges)


@needs_scopes
def test_signals_stay_within_the_landlock_domain(folders: Folders) -> None:
    test = os.getpid()

    def signal_own_child() -> int:
        with subprocess.Popen(["/bin/sleep", "60"]) as child:
            child.send_signal(signal.SIGKILL)
            return child.wait()

    assert folders.refused(lambda: os.kill(test, 0))
    assert folders.confined(signal_own_child) == -signal.SIGKILL


@needs_scopes
def test_abstract_sockets_of_other_runs_are_unreachable(folders: Folders) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0temper-test-{os.getpid()}")
        server.listen()
        address = server.getsockname()

        assert folders.refused(lambda: socket.socket(socket.AF_UNIX).connect(address))

    def talk_to_oneself() -> str:
        with socket.socket(socket.AF_UNIX) as own:
            own.bind(f"\0temper-test-{os.getpid()}")
            own.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(own.getsockname())
                client.send(b"hello")
                return own.accept()[0].recv(5).decode()

    assert folders.confined(talk_to_oneself) == "hello"


@needs_tcp
def test_tcp_is_denied_on_request(folders: Folders) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        assert folders.refused(lambda: socket.create_connection(address), deny_tcp=True)
        assert folders.refused(lambda: socket.create_server(("127.0.0.1", 0)), deny_tcp=True)
        folders.confined(lambda: socket.create_connection(address).close())
