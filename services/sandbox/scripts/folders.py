"""The folders that scripts may read: the operator's list."""

from collections.abc import Mapping
from pathlib import Path

from services.contracts.errors import Unprocessable
from services.sandbox.wire import clean_path

SETTING = "TEMPER_SANDBOX_SCRIPT_FOLDERS"


class ReadOnlyFolders:
    """Finds what a client names in the operator's folders, which are listed by name."""

    def __init__(self, listed: Mapping[str, Path]) -> None:
        self._listed = dict(listed)

    @property
    def names(self) -> list[str]:
        """The names on the list."""
        return list(self._listed)

    def find(self, named: str, param: str) -> Path:
        """The folder that NAME or NAME/below means; raises `Unprocessable`.

        Nothing outside of the listed folder is ever named, and no link is followed.
        """
        name, _, below = named.partition("/")
        top = self._listed.get(name)
        if top is None:
            raise Unprocessable(
                f"{param}: {name[:80]!r} is none of the folders in {SETTING} of this sandbox",
                param=param,
            )
        folder = top / clean_path(below, param) if below else top
        try:
            is_itself = folder.resolve(strict=True) == folder and folder.is_dir()
        except (OSError, RuntimeError):  # missing, or a loop of links
            is_itself = False
        if not is_itself:
            raise Unprocessable(
                f"{param}: {named[:200]!r} is not a folder, or is reached through a link",
                param=param,
            )
        return folder
