"""Where indexes are kept: a folder with one folder for each, which is named for it."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.contracts.indexes import IndexSummary, checked_name
from services.retrieval.store.errors import IndexUnusable, UnknownIndex
from services.retrieval.store.index import Index
from services.retrieval.store.layout import (
    IndexFolder,
    VersionFolder,
    locked,
    sync_folder,
    write_atomically,
)

_SWEPT = ".swept-"


class Writing:
    """A build of an index, by whoever holds its lock.

    `building` is where the version is made. It outlives the process, so that the next build can
    go on with it, until `publish` or `discard`.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """For `IndexStore.writing`."""
        self._folder = folder
        self.building: VersionFolder = folder.building

    def publish(self) -> str:
        """Serve what was built from now on; the name of the version.

        The version before is kept, older ones go. Raises IndexUnusable when what was built cannot
        be opened; then nothing changes.
        """
        Index.open(self.building).close()
        before = self._folder.served
        version = self._folder.next_version
        self.building.path.rename(self._folder.version(version).path)
        sync_folder(self._folder.path)
        self._serve(version)
        for old in self._folder.versions:
            if old not in (version, before):
                swept_away(self._folder.version(old).path, self._folder.path)
        return version

    def discard(self) -> None:
        """Delete what was built."""
        if self.building.path.exists():
            swept_away(self.building.path, self._folder.path)

    def tidy(self) -> None:
        """Finish what a killed process had begun: a switch, or a deletion."""
        complete = [one for one in self._folder.versions if self._folder.version(one).is_complete]
        if complete and complete[-1] != self._folder.served:
            self._serve(complete[-1])
        sweep(self._folder.path)
        sweep(self._folder.path.parent)

    def leave(self) -> None:
        """Leave no folder behind for an index that never came to be."""
        if self._folder.served is None and not self.building.path.exists():
            swept_away(self._folder.path, self._folder.path.parent)

    def _serve(self, version: str) -> None:
        write_atomically(self._folder.current, f"{version}\n".encode())


def swept_away(path: Path, place: Path) -> None:
    """Delete a folder; at any moment it is there as it was, or not at all."""
    doomed = place / f"{_SWEPT}{secrets.token_hex(8)}"
    path.rename(doomed)
    sync_folder(place)
    shutil.rmtree(doomed, ignore_errors=True)


def sweep(place: Path) -> None:
    """Delete what a killed `swept_away` left."""
    for doomed in place.glob(f"{_SWEPT}*"):
        shutil.rmtree(doomed, ignore_errors=True)


@dataclass(frozen=True)
class Opened:
    """An open index. ``problem`` is why it is not the version it should be, or None."""

    index: Index
    version: str
    problem: str | None = None


class IndexStore:
    """The indexes below a root."""

    def __init__(self, root: Path) -> None:
        """Use the indexes of ``root``, which may not be there yet."""
        self.root = root

    def names(self) -> list[str]:
        """The indexes that can be opened, in the order of their names."""
        folders = self.root.iterdir() if self.root.is_dir() else []
        return sorted(one.name for one in folders if IndexFolder(one).current.is_file())

    def version(self, name: str) -> str | None:
        """The version of an index that should be served; None when there is no such index."""
        return self._folder(name).served

    def open(self, name: str, *, device: str = "cpu") -> Opened:
        """Open an index: the version that should be served, or else the last good one.

        Raises UnknownIndex, or IndexUnusable when no version can be opened.
        """
        return open_path(self._known(name).path, device=device)

    def summary(self, name: str) -> IndexSummary:
        """The index as it is listed; raises as `open` does."""
        opened = self.open(name)
        try:
            summary = opened.index.summary()
            return summary.model_copy(update={"problem": opened.problem or summary.problem})
        finally:
            opened.index.close()

    @contextmanager
    def writing(self, name: str, timeout: float) -> Iterator[Writing]:
        """Build a version of an index, which may be new, while the one before is served.

        Raises IndexBusy when others have built or changed it for ``timeout`` seconds.
        """
        folder = self._folder(name)
        with locked(folder.lock, timeout, make_folder=True):
            writing = Writing(folder)
            writing.tidy()
            try:
                yield writing
            finally:
                writing.leave()

    def drop(self, name: str, timeout: float = 10.0) -> None:
        """Delete an index with all its versions; raises UnknownIndex or IndexBusy.

        Who has it open goes on with what was opened.
        """
        folder = self._known(name)
        with locked(folder.lock, timeout):
            swept_away(folder.path, self.root)

    def _known(self, name: str) -> IndexFolder:
        folder = self._folder(name)
        if folder.served is None:
            raise UnknownIndex(f"No index {name!r}", param="index")
        return folder

    def _folder(self, name: str) -> IndexFolder:
        try:
            return IndexFolder(self.root / checked_name(name))
        except ValueError as error:
            raise UnknownIndex(f"No index {name[:80]!r}: a name {error}", param="index") from None


def open_path(path: Path, *, device: str = "cpu") -> Opened:
    """Open the index in a folder, which need not be in a store; raises IndexUnusable.

    When the version that should be served cannot be opened, the newest good one before it is.
    """
    folder = IndexFolder(path)
    while True:
        served = folder.served
        if served is None:
            raise IndexUnusable(f"{path} is not an index: it has no file named current")
        try:
            opened = _newest_good(folder, served, device)
            if opened.problem is None or folder.served == served:
                return opened
            opened.index.close()
        except IndexUnusable:
            if folder.served == served:
                raise
        # It was switched and swept while we looked.


def _newest_good(folder: IndexFolder, served: str, device: str) -> Opened:
    problem: IndexUnusable | None = None
    versions = folder.versions
    if served not in versions:
        problem = IndexUnusable(f"{folder.current} names {served[:80]!r}, which is not there")
    for version in reversed(versions):
        if problem is None and version > served:
            continue  # Finished, but whoever built it was killed before it was to be served.
        try:
            index = Index.open(folder.version(version), device=device)
        except IndexUnusable as error:
            problem = problem or error
        else:
            return Opened(index, version, problem.message if problem else None)
    raise problem or IndexUnusable(f"{folder.path} has no version")
