"""Where the indexes lie that a service can search."""

from pathlib import Path

from services.contracts.errors import ConfigurationError
from services.contracts.indexes import IndexSummary, checked_name
from services.retrieval.store.errors import IndexUnusable, UnknownIndex
from services.retrieval.store.layout import IndexFolder
from services.retrieval.store.store import IndexStore, Opened, open_path


class IndexPlaces:
    """The indexes of a store by their names, and the default one, which may lie elsewhere.

    ``default`` is given as a name or as a folder; afterwards it is the name. Raises
    `ConfigurationError` when it can be neither.
    """

    def __init__(self, store: IndexStore, default: str) -> None:
        self._store = store
        self._elsewhere = _folder_of(store, default)
        self.default = default if self._elsewhere is None else self._elsewhere.name

    def names(self) -> list[str]:
        """The indexes that there are, the default one among them wherever it lies."""
        names = set(self._store.names())
        return sorted(names | {self.default} if self._elsewhere is not None else names)

    def mark(self, name: str) -> str | None:
        """Names what should be served of an index; another one after each switch, and when it was
        made anew. None when there is no such index."""
        folder = self._folder(name)
        version = folder.served
        try:
            current = folder.current.stat()
        except FileNotFoundError:
            return None
        return f"{version} {current.st_ino} {current.st_mtime_ns}"

    def open(self, name: str, device: str) -> Opened:
        """Open an index in its newest good version; raises `UnknownIndex` or `IndexUnusable`."""
        folder = self._folder(name)
        if folder.served is None:
            raise UnknownIndex(f"there is no index {name!r}", param="index")
        return open_path(folder.path, device=device)

    def summary(self, name: str) -> IndexSummary:
        """An index as it is listed, without keeping it open; raises `UnknownIndex`."""
        try:
            opened = self.open(name, "cpu")
        except IndexUnusable as error:
            version = self._folder(name).served or ""
            return IndexSummary.unusable(name, version, error.message)
        try:
            summary = opened.index.summary()
        finally:
            opened.index.close()
        return summary.model_copy(update={"problem": opened.problem or summary.problem})

    def drop(self, name: str, timeout: float) -> None:
        """Delete an index of the store; raises `UnknownIndex` or `IndexBusy`."""
        self._store.drop(name, timeout)

    def _folder(self, name: str) -> IndexFolder:
        if self._elsewhere is not None and name == self.default:
            return IndexFolder(self._elsewhere)
        try:
            return IndexFolder(self._store.root / checked_name(name))
        except ValueError:
            raise UnknownIndex(f"there is no index {name!r:.100}", param="index") from None


def _folder_of(store: IndexStore, default: str) -> Path | None:
    """The folder that the default index is given by, if it is not given by its name."""
    folder = Path(default).expanduser().resolve()
    try:
        is_there = store.version(checked_name(default)) is not None
    except ValueError:
        if folder.is_dir():
            return folder
        raise ConfigurationError(
            f"{default!r} is neither the name of an index nor the folder of one"
        ) from None
    return folder if folder.is_dir() and not is_there else None
