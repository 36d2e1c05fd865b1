"""Files are reachable by their own path only, whatever a cell puts in the way."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.sandbox.guest.notebook.files import Folder

NAMES = st.text(st.sampled_from("ab.é-"), min_size=1, max_size=4).filter(
    lambda name: name not in (".", "..")
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    return folder


@pytest.fixture
def folder(workspace: Path) -> Iterator[Folder]:
    descriptor = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    yield Folder(descriptor)
    os.close(descriptor)


def refusal(folder: Folder, path: str) -> int | None:
    """The error number with which a path can neither be read nor written."""
    numbers = []
    for attempt in (lambda: folder.read(path, 100), lambda: folder.write(path, b"x")):
        with pytest.raises(OSError, match="Errno") as caught:
            attempt()
        numbers.append(caught.value.errno)
    return numbers[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.dictionaries(NAMES, st.binary(max_size=50), max_size=8), limit=st.integers(1, 9))
def test_written_files_are_listed_in_pages_and_readable(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes], limit: int
) -> None:
    descriptor = os.open(tmp_path_factory.mktemp("workspace"), os.O_RDONLY)
    folder = Folder(descriptor)
    for name, content in contents.items():
        written = folder.write(f"below/{name}", content)
        assert [entry["bytes"] for entry in written] == [len(content)]
    listed: list[str] = []
    while page := folder.names(listed[-1] if listed else "", limit):
        listed += [entry["path"] for entry in page]
    assert listed == sorted(f"below/{name}" for name in contents)
    assert {path: folder.read(path, 100) for path in listed} == {
        f"below/{name}": content for name, content in contents.items()
    }
    os.close(descriptor)


def test_a_shorter_content_replaces_a_longer_one_completely(folder: Folder) -> None:
    folder.write("a", b"long content")
    folder.write("a", b"short")
    assert folder.read("a", 100) == b"short"


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "nothing"])
def test_links_are_not_followed(folder: Folder, workspace: Path, target: str) -> None:
    (workspace / "link").symlink_to(target)
    assert refusal(folder, "link") == errno.ELOOP
    assert folder.names("", 10) == []
    assert (workspace.parent / "secret").read_text() == "secret"


def test_linked_folders_are_not_entered(folder: Folder, workspace: Path) -> None:
    (workspace / "folder").symlink_to("..")
    assert refusal(folder, "folder/secret") == errno.ELOOP
    assert (workspace.parent / "secret").read_text() == "secret"


def test_a_fifo_does_not_block(folder: Folder, workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    assert refusal(folder, "fifo") == errno.EISDIR
    reader = os.open(workspace / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    assert refusal(folder, "fifo") == errno.EISDIR
    os.close(reader)


def test_a_folder_is_not_a_file(folder: Folder, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    assert refusal(folder, "folder") == errno.EISDIR


def test_no_more_than_the_limit_is_read(folder: Folder) -> None:
    folder.write("a", b"12345")
    assert folder.read("a", 5) == b"12345"
    with pytest.raises(OSError, match="Errno") as caught:
        folder.read("a", 4)
    assert caught.value.errno == errno.EFBIG


def test_an_undecodable_name_is_not_listed(folder: Folder, workspace: Path) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xff")).touch()
    (workspace / "text").touch()
    assert [entry["path"] for entry in folder.names("", 10)] == ["text"]


def test_an_uploaded_file_is_readable_for_its_owner(folder: Folder, workspace: Path) -> None:
    folder.write("a", b"")
    assert stat.S_IMODE((workspace / "a").stat().st_mode) & 0o600 == 0o600
