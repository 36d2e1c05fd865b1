"""On-disk layout of an index, its lock, and durable replacement of small files."""

import errno
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from services.retrieval.store.errors import IndexBusy, IndexReadOnly

_VERSION = re.compile(r"v(\d{8})-[0-9a-f]{8}")


@dataclass(frozen=True)
class VersionFolder:
    """A version of an index, complete or pending."""

    path: Path

    @property
    def manifest(self) -> Path:
        """The manifest; written last, so a version without one is unfinished."""
        return self.path / "manifest.json"

    @property
    def text(self) -> Path:
        """The text index: words, metadata, and which passages exist."""
        return self.path / "text"

    @property
    def commit(self) -> Path:
        """tantivy's description of the last commit of the text index."""
        return self.text / "meta.json"

    @property
    def passages(self) -> Path:
        """The passage store."""
        return self.path / "passages"

    @property
    def dense(self) -> Path:
        """The vector index, if any."""
        return self.path / "dense"

    @property
    def is_complete(self) -> bool:
        """Whether its build was completed."""
        return self.manifest.is_file()


@dataclass(frozen=True)
class IndexFolder:
    """An index: its versions, and the one being served."""

    path: Path

    @property
    def lock(self) -> Path:
        """Held by builds and changes."""
        return self.path / "lock"

    @property
    def current(self) -> Path:
        """Names the served version."""
        return self.path / "current"

    @property
    def dropped(self) -> Path:
        """Beside the index: notes that it was deleted."""
        return self.path.with_name(f".dropped-{self.path.name}")

    @property
    def building(self) -> VersionFolder:
        """The pending version."""
        return VersionFolder(self.path / "building")

    @property
    def served(self) -> str | None:
        """The version to serve; None when there is none."""
        try:
            return self.current.read_text("utf-8", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def versions(self) -> list[str]:
        """All finished versions, oldest first."""
        return sorted(one.name for one in self.path.iterdir() if _VERSION.fullmatch(one.name))

    @property
    def next_version(self) -> str:
        """A name for the next version.

        Never reused, so that a process holding a dropped index open cannot mistake files of a later
        index of the same name for its own.
        """
        last = _VERSION.fullmatch(self.versions[-1]) if self.versions else None
        return f"v{int(last[1]) + 1 if last else 1:08d}-{secrets.token_hex(4)}"

    def version(self, name: str) -> VersionFolder:
        """The version of that name."""
        return VersionFolder(self.path / name)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably."""
    aside = path.with_name(f".{path.name}.new")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """fsync a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def bytes_in(path: Path) -> int:
    """Size of a file, or of all files in a folder; files deleted meanwhile are skipped."""
    total = 0
    for one in path.rglob("*") if path.is_dir() else [path]:
        with suppress(FileNotFoundError):
            total += one.stat().st_size
    return total


_PAUSE = 0.02


@contextmanager
def locked(path: Path, timeout: float, *, make_folder: bool = False) -> Iterator[None]:
    """Hold a file lock, released when the process dies.

    ``make_folder`` creates the folder of a new index first. Raises IndexBusy after ``timeout``
    seconds, or IndexReadOnly.
    """
    deadline = time.monotonic() + timeout
    while (descriptor := _taken(path, make_folder)) is None:
        if time.monotonic() >= deadline:
            raise IndexBusy(f"{path.parent.name!r} is being built or changed; try again later")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


def _taken(path: Path, make_folder: bool) -> int | None:
    """The locked descriptor; None if it is held elsewhere or the file was removed."""
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except (FileNotFoundError, FileExistsError):
        # Another writer removed the folder; mkdir raises FileExistsError when it vanishes between
        # the two system calls behind exist_ok.
        return None
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise IndexReadOnly(f"{path} cannot be written: {error.strerror}") from error
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
