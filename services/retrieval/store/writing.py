"""Making a version of an index beside the one that is served, and switching to it."""

import secrets
import shutil
from pathlib import Path

from services.retrieval.store.index import Index
from services.retrieval.store.layout import (
    IndexFolder,
    VersionFolder,
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
