"""The index store: one folder per index, with versions that are built aside and switched to."""

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.contracts.retrieval.indexes import IndexSummary, checked_name, is_index_name
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


class PendingVersion:
    """A version being built, by the holder of the index's lock.

    `building` is its folder. It survives the process, so that the next build can resume it, until
    `publish` or `discard`.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """Created by `IndexStore.writing`."""
        self._folder = folder
        self.building: VersionFolder = folder.building

    def publish(self) -> str:
        """Switch the index to the built version; returns its name.

        The previous version is kept, older ones are deleted. Raises IndexUnusable, changing
        nothing, when the build cannot be opened.
        """
        Index.open(self.building).close()
        before = self._folder.served
        version = self._folder.next_version
        self.building.path.rename(self._folder.version(version).path)
        sync_folder(self._folder.path)
        self._serve(version)
        for old in self._folder.versions:
            if old not in (version, before):
                remove_atomically(self._folder.version(old).path, self._folder.path)
        return version

    def discard(self) -> None:
        """Delete the pending version."""
        if self.building.path.exists():
            remove_atomically(self.building.path, self._folder.path)

    def recover(self) -> None:
        """Complete a switch or deletion that a kill interrupted."""
        complete = [one for one in self._folder.versions if self._folder.version(one).is_complete]
        if complete and complete[-1] != self._folder.served:
            self._serve(complete[-1])
        remove_leftovers(self._folder.path)
        remove_leftovers(self._folder.path.parent)

    def remove_unpublished(self) -> None:
        """Remove the folder of an index that was never published."""
        if self._folder.served is None and not self.building.path.exists():
            remove_atomically(self._folder.path, self._folder.path.parent)

    def _serve(self, version: str) -> None:
        write_atomically(self._folder.current, f"{version}\n".encode())


def remove_atomically(path: Path, place: Path) -> None:
    """Delete a folder atomically: it is renamed first."""
    doomed = place / f"{_SWEPT}{secrets.token_hex(8)}"
    path.rename(doomed)
    sync_folder(place)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(place: Path) -> None:
    """Delete what a killed `remove_atomically` left behind."""
    for doomed in place.glob(f"{_SWEPT}*"):
        shutil.rmtree(doomed, ignore_errors=True)


@dataclass(frozen=True)
class OpenedIndex:
    """An open index; ``problem`` says why it is not the current version, if so."""

    index: Index
    version: str
    problem: str | None = None


class IndexStore:
    """The indexes below a root folder."""

    def __init__(self, root: Path) -> None:
        """Use the indexes of ``root``, which may not exist yet."""
        self.root = root

    def names(self) -> list[str]:
        """Names of the published indexes, sorted; folders that cannot be indexes are skipped."""
        folders = self.root.iterdir() if self.root.is_dir() else []
        return sorted(
            one.name
            for one in folders
            if is_index_name(one.name) and IndexFolder(one).current.is_file()
        )

    def version(self, name: str) -> str | None:
        """The version to serve; None when there is no such index."""
        return self._folder(name).served

    def open(self, name: str, *, device: str = "cpu") -> OpenedIndex:
        """Open the current version, or else the last good one.

        Raises UnknownIndex, or IndexUnusable when no version can be opened.
        """
        return open_path(self._known(name).path, device=device)

    def summary(self, name: str) -> IndexSummary:
        """Summarize an index; raises as `open` does."""
        opened = self.open(name)
        try:
            summary = opened.index.summary()
            problem = opened.problem or summary.problem
            return summary.model_copy(update={"name": name, "problem": problem})
        finally:
            opened.index.close()

    @contextmanager
    def writing(self, name: str, timeout: float) -> Iterator[PendingVersion]:
        """Build a version of a new or existing index while the current one is served.

        Raises IndexBusy when another build or change holds the index for ``timeout`` seconds.
        """
        folder = self._folder(name)
        with locked(folder.lock, timeout, make_folder=True):
            writing = PendingVersion(folder)
            writing.recover()
            try:
                yield writing
            finally:
                writing.remove_unpublished()

    def drop(self, name: str, timeout: float = 10.0) -> None:
        """Delete an index with all its versions; raises UnknownIndex or IndexBusy.

        Processes that have it open keep serving it.
        """
        folder = self._known(name)
        with locked(folder.lock, timeout):
            remove_atomically(folder.path, self.root)

    def was_dropped(self, name: str) -> bool:
        """Whether `remember_dropped` was called, and no such index was published since."""
        folder = self._folder(name)
        return folder.served is None and folder.dropped.exists()

    def remember_dropped(self, name: str) -> None:
        """Record, beyond this process, that an index is missing because it was deleted."""
        self._folder(name).dropped.touch()

    def forget_dropped(self, name: str) -> None:
        """Remove that record."""
        self._folder(name).dropped.unlink(missing_ok=True)

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


def open_path(
    path: Path, *, device: str = "cpu", damaged: Mapping[str, str] | None = None
) -> OpenedIndex:
    """Open the index in a folder, inside a store or not; raises IndexUnusable.

    Falls back to the newest good version when the current one cannot be opened. ``damaged``
    are versions known to be bad, with the reasons.
    """
    folder = IndexFolder(path)
    while True:
        served = folder.served
        if served is None:
            raise IndexUnusable(f"{path} is not an index: it has no file named current")
        try:
            opened = _newest_good(folder, served, device, damaged or {})
            if opened.problem is None or folder.served == served:
                return opened
            opened.index.close()
        except IndexUnusable:
            if folder.served == served:
                raise
        # Switched and deleted while we were opening it.


def _newest_good(
    folder: IndexFolder, served: str, device: str, damaged: Mapping[str, str]
) -> OpenedIndex:
    problem: IndexUnusable | None = None
    versions = folder.versions
    if served not in versions:
        problem = IndexUnusable(f"{folder.current} names {served[:80]!r}, which is not there")
    for version in reversed(versions):
        if problem is None and version > served:
            continue  # Finished, but its builder was killed before switching to it.
        try:
            if version in damaged:
                raise IndexUnusable(damaged[version])
            index = Index.open(folder.version(version), device=device)
        except IndexUnusable as error:
            problem = problem or error
        else:
            return OpenedIndex(index, version, problem.message if problem else None)
    raise problem or IndexUnusable(f"{folder.path} has no version")
