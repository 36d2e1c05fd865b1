"""Whether this process may read the files of a model, found out before a device needs them."""

import os
from pathlib import Path

from services.contracts.errors import InvalidRequest

ENTER = os.R_OK | os.X_OK


def check_readable(folder: Path, name: str, param: str) -> None:
    """Raise `InvalidRequest` if the folder of a model, or anything in it, cannot be read.

    Services may run as another user than the one who put the model there; in containers they
    always do. ``name`` is what the request calls the model. A folder that is missing passes.
    """
    path = _unreadable(folder)
    if path is None:
        return
    inside = path.is_relative_to(folder) and path != folder
    what = f"{path.relative_to(folder)} in its folder" if inside else "its folder"
    raise InvalidRequest(
        f"{name!r}: {what} cannot be read by user {os.geteuid()}, as which this service runs: "
        f"{_reason(path)}; `chmod -R a+rX` on the folder lets every user read it",
        param=param,
    )


def _unreadable(folder: Path) -> Path | None:
    """The first folder or file that cannot be read, those above the folder included."""
    for above in reversed(folder.parents):
        if not _may(above, os.X_OK):
            return above if _may(above, os.F_OK) else None
    if not _may(folder, ENTER):
        return folder if _may(folder, os.F_OK) else None
    for place, folders, files in os.walk(folder):
        for names, mode in ((files, os.R_OK), (folders, ENTER)):
            for path in (Path(place, name) for name in sorted(names)):
                if not _may(path, mode):
                    return path
    return None


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=True)


def _reason(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:  # a link to a file that is not there
        return str(error.strerror)
    return f"it belongs to user {status.st_uid}, mode {status.st_mode & 0o7777:04o}"
