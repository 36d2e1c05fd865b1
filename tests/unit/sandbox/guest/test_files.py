"""Files of a run: written before it, and fetched afterwards."""

import contextlib
import errno
import io
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typing_extensions import Buffer

from services.sandbox.guest import files, frames

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "outside.txt").write_text("secret")
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def write(*described: tuple[str, bytes, bool]) -> None:
    """Have files written that come over a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        contents = b"".join(data for _, data, _ in described)

        def send() -> None:
            with contextlib.suppress(BrokenPipeError):
                ours.sendall(contents)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            files.write_files(
                theirs, [(name, len(data), executable) for name, data, executable in described]
            )
        finally:
            theirs.close()
            sender.join()


class Slow(io.FileIO):
    """A file of which the kernel takes three bytes at a time."""

    def write(self, data: Buffer) -> int:
        return super().write(memoryview(data)[:3])


def test_a_file_that_is_taken_in_parts_is_whole(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(files, "FileIO", Slow)
        write(("a.txt", b"0123456789", False), ("b.txt", b"abc", False))
    assert (workspace / "a.txt").read_bytes() == b"0123456789"
    assert (workspace / "b.txt").read_bytes() == b"abc"


class Full(io.FileIO):
    """A file on a disk that is full at first."""

    refusals = 0

    def write(self, data: Buffer) -> int:
        if self.refusals:
            type(self).refusals -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize(("refusals", "seconds", "is_whole"), [(3, 600.0, True), (3, 0.0, False)])
def test_a_file_waits_a_while_for_space(
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusals: int,
    seconds: float,
    is_whole: bool,
) -> None:
    monkeypatch.setattr(files, "SPACE_SECONDS", seconds)
    monkeypatch.setattr(Full, "refusals", refusals)
    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(files, "FileIO", Full)
        if not is_whole:
            stack.enter_context(pytest.raises(OSError, match="No space left"))
        write(("a.txt", b"0123456789", False))
    assert ((workspace / "a.txt").read_bytes() == b"0123456789") is is_whole


def fetch(workspace: Path, *wanted: str) -> tuple[dict[str, bytes], list[str]]:
    """The files that come back for these names, and the names of those left out."""
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fetched, left_out = files.open_files(folder, list(wanted))
    finally:
        os.close(folder)
    contents = {}
    for file in fetched:
        with open(file.descriptor, "rb") as opened:
            contents[file.name] = opened.read()
    return contents, left_out


@pytest.mark.usefixtures("umask")
def test_files_are_written_with_their_folders_and_modes(workspace: Path) -> None:
    large = bytes(range(256)) * 10_000
    write(("a.txt", b"a", False), ("b/c/d.sh", b"#!/bin/sh", True), ("b/empty", b"", False))
    write(("large", large, False))

    assert (workspace / "a.txt").read_bytes() == b"a"
    assert (workspace / "b/c/d.sh").stat().st_mode & 0o777 == 0o755
    assert (workspace / "b/empty").stat().st_mode & 0o777 == 0o644
    assert (workspace / "large").read_bytes() == large


def test_files_cannot_be_written_twice_or_below_a_file(workspace: Path) -> None:
    with pytest.raises(FileExistsError):
        write(("a", b"1", False), ("a", b"", False))
    with pytest.raises(FileExistsError):
        write(("a/b", b"", False))

    assert (workspace / "a").read_bytes() == b"1"


def test_truncated_file_contents_raise_channel_closed(workspace: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"half")
        ours.close()

        with pytest.raises(frames.ChannelClosed):
            files.write_files(theirs, [("a", 8, False)])


def test_regular_files_are_fetched_once_each(workspace: Path) -> None:
    write(("a.txt", b"a", False), ("b/c.txt", b"c", False))

    assert fetch(workspace, "b/c.txt", "a.txt", "a.txt", "absent", "*.txt") == (
        {"b/c.txt": b"c", "a.txt": b"a"},
        [],
    )


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", {"a.class", "b.txt", "out/c.class", "out/deep/d.txt"}),
        ("*.class", {"a.class", "out/c.class"}),
        ("out/*", {"out/c.class", "out/deep/d.txt"}),
        ("out/**", {"out/c.class", "out/deep/d.txt"}),
        ("*/d.*", {"out/deep/d.txt"}),
        ("../*", set()),
        ("/*", set()),
    ],
)
def test_patterns_match_the_whole_path(workspace: Path, pattern: str, names: set[str]) -> None:
    for name in ("a.class", "b.txt", "out/c.class", "out/deep/d.txt"):
        write((name, b"x", False))

    assert fetch(workspace, pattern)[0].keys() == names


def link(path: Path) -> None:
    path.symlink_to("../outside.txt")


def link_to_folder(path: Path) -> None:
    path.symlink_to(path.parent.parent, target_is_directory=True)


def absolute_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "outside.txt")


def magic_link(path: Path) -> None:
    path.symlink_to("/proc/self/environ")


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


@pytest.mark.parametrize(
    "make",
    [
        *(link, absolute_link, link_to_folder, magic_link, os.mkfifo, Path.mkdir, bound_socket),
        pytest.param(device, marks=as_root),
    ],
)
def test_only_regular_files_are_listed(workspace: Path, make: Callable[[Path], None]) -> None:
    make(workspace / "odd")
    write(("good", b"x", False))

    assert fetch(workspace, "odd", "odd/outside.txt", "odd/x", "*") == ({"good": b"x"}, [])


@pytest.mark.parametrize(
    "name", ["../outside.txt", "/etc/passwd", "a/../../outside.txt", "", ".", "..", "x" * 5000]
)
def test_names_leading_outside_are_left_out(workspace: Path, name: str) -> None:
    (workspace / "a").mkdir()

    assert fetch(workspace, name) == ({}, [])


def test_links_inside_a_path_are_not_followed(workspace: Path) -> None:
    write(("real/file", b"x", False))
    (workspace / "alias").symlink_to("real")

    assert fetch(workspace, "alias/file", "*")[0] == {"real/file": b"x"}


def test_hard_links_are_ordinary_files(workspace: Path) -> None:
    write(("one", b"x", False))
    (workspace / "two").hardlink_to(workspace / "one")

    assert fetch(workspace, "two")[0] == {"two": b"x"}


def test_undecodable_names_are_left_out(workspace: Path) -> None:
    (workspace / os.fsdecode(b"\xff.txt")).write_bytes(b"x")
    (workspace / "caf\u00e9.txt").write_bytes(b"y")

    assert fetch(workspace, "*.txt", "\udcff.txt") == ({"caf\u00e9.txt": b"y"}, [])


def test_a_tree_deeper_than_path_max_does_no_harm(deep_tree: Path) -> None:
    (deep_tree / "top.txt").write_bytes(b"x")

    assert fetch(deep_tree, "*.txt") == ({"top.txt": b"x"}, [])


def test_files_beyond_the_limits_are_named(workspace: Path) -> None:
    for name, size in (("a", files.MAX_BYTES), ("b", 1), ("c", 0)):
        with (workspace / name).open("wb") as file:
            file.truncate(size)

    contents, left_out = fetch(workspace, "a", "b", "c")

    assert {name: len(data) for name, data in contents.items()} == {"a": files.MAX_BYTES, "c": 0}
    assert left_out == ["b"]


def test_files_beyond_the_limit_are_named(workspace: Path) -> None:
    for number in range(files.MAX_FILES + 3):
        (workspace / f"{number}").touch()

    contents, left_out = fetch(workspace, "*")

    assert (len(contents), len(left_out)) == (files.MAX_FILES, 3)


def test_a_result_carries_the_fetched_files(workspace: Path) -> None:
    large = bytes(range(256)) * 20_000
    write(("large", large, False), ("empty", b"", False))
    ours, theirs = socket.socketpair()
    names, write_end = os.pipe()
    assert files.write_names(["large", "empty", "absent"], write_end)
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    with ours, theirs:
        arguments = (ours, {"return_code": 0}, names, folder)
        sender = threading.Thread(target=files.answer_with_files, args=arguments)
        sender.start()
        header, _ = frames.receive(theirs)
        content = frames.exactly(theirs, len(large))
        sender.join()
    os.close(folder)

    assert header["return_code"] == 0
    assert header["files"] == [["large", len(large)], ["empty", 0]]
    assert content == large


@pytest.mark.parametrize("number", [1, 5_000, 60_000])
def test_the_pipe_holds_all_file_names(number: int) -> None:
    names = [f"file-{n:04}" for n in range(number)]

    read_end, write_end = os.pipe()
    assert files.write_names(names, write_end)

    with open(read_end) as pipe:
        assert json.loads(pipe.read()) == names


def test_too_many_file_names_are_rejected() -> None:
    read_end, write_end = os.pipe()
    with open(read_end), open(write_end), pytest.raises(OSError, match="too long"):
        files.write_names(["x" * 1000] * 2000, write_end)


def test_without_names_nothing_is_fetched() -> None:
    assert not files.write_names([], -1)
