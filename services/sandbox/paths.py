"""Paths and contents of files as clients give them.

A path is relative to the work directory and stays below it by its text alone. Links that a
program makes there are another matter: files are opened so that none is followed.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping

from services.contracts.errors import Unprocessable

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_PATTERNS = 20


def clean_path(path: str, param: str) -> str:
    """The path without ``.`` in it; raises `Unprocessable`, naming the path and ``param``."""
    reason = _fault(path)
    if reason is not None:
        raise Unprocessable(f"{param}: the path {path[:200]!r} {reason}", param=param)
    return "/".join(part for part in path.split("/") if part != ".")


def clean_paths(paths: Iterable[str], param: str) -> dict[str, str]:
    """Each path or pattern as it was written, by its clean form; raises `Unprocessable`."""
    clean = {clean_path(path, param): path for path in paths}
    if sum("*" in path for path in clean) > MAX_PATTERNS:
        raise Unprocessable(f"{param}: has more than {MAX_PATTERNS} patterns", param=param)
    return clean


def decode_files(files: Mapping[str, str | None], param: str) -> dict[str, bytes]:
    """Contents by clean path; null makes no file. Raises `Unprocessable`."""
    decoded: dict[str, bytes] = {}
    for path, content in files.items():
        clean = clean_path(path, param)
        if clean in decoded:
            raise Unprocessable(f"{param}: {path[:200]!r} is there twice", param=param)
        if content is not None:
            decoded[clean] = decode_content(content, path, param)
    _check_folders(decoded, param)
    return decoded


def decode_content(content: str, path: str, param: str) -> bytes:
    """The bytes that a text in base64 stands for; line breaks in it are allowed.

    Raises `Unprocessable`.
    """
    try:
        return base64.b64decode("".join(content.splitlines()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unprocessable(
            f"{param}: the content of {path[:200]!r} is not base64: {error}", param=param
        ) from None


def _fault(path: str) -> str | None:
    parts = path.split("/")
    faults = (
        (path.startswith("/"), "is absolute; give it below the work directory"),
        (".." in parts, "leads upwards"),
        ("\0" in path, "holds a NUL character"),
        ("" in parts or parts[-1] == ".", "has an empty part, or names a folder"),
        (len(path.encode()) > MAX_PATH_BYTES, f"is longer than {MAX_PATH_BYTES} bytes"),
        (
            any(len(part.encode()) > MAX_NAME_BYTES for part in parts),
            f"has a name of more than {MAX_NAME_BYTES} bytes",
        ),
    )
    return next((reason for is_wrong, reason in faults if is_wrong), None)


def _check_folders(files: Mapping[str, bytes], param: str) -> None:
    """Refuse a path that is a file and a folder."""
    for path in files:
        parts = path.split("/")
        for length in range(1, len(parts)):
            folder = "/".join(parts[:length])
            if folder in files:
                raise Unprocessable(f"{param}: {folder[:200]!r} is also a folder", param=param)
