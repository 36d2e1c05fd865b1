"""The folders that scripts may read: the operator's list."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.errors import Unprocessable
from services.sandbox.wire import clean_path

SETTING = "TEMPER_SANDBOX_SCRIPT_FOLDERS"


class ReadOnlyFolders:
    """Resolves a client's NAME or NAME/SUBFOLDER below the operator's folders, listed by name."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = dict(folders)

    @property
    def names(self) -> list[str]:
        """The names on the list."""
        return list(self._folders)

    def find(self, requested: str, param: str) -> Path:
        """Resolve a requested folder; raises `Unprocessable`.

        The result never lies outside the listed folder, and no link is followed.
        """
        name, _, below = requested.partition("/")
        root = self._folders.get(name)
        if root is None:
            raise Unprocessable(
                f"{param}: {name[:80]!r} is none of the folders in {SETTING} of this sandbox",
                param=param,
            )
        folder = root / clean_path(below, param) if below else root
        try:
            is_real = folder.resolve(strict=True) == folder and folder.is_dir()
        except (OSError, RuntimeError):  # missing, or a loop of links
            is_real = False
        if not is_real:
            raise Unprocessable(
                f"{param}: {requested[:200]!r} is not a folder, or is reached through a link",
                param=param,
            )
        return folder
