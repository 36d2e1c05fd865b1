"""Checksums beside small files that are replaced as a whole: the manifest, and the last commit."""

import zlib
from pathlib import Path

from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import write_atomically

_BEING_REPLACED = "being replaced"
_ATTEMPTS = 10
"""Readings of a file that is being replaced, before it counts as damaged."""


def seal(path: Path, content: bytes | None = None) -> None:
    """Write the checksum of ``content``, or of what the file holds, durably."""
    checksum = zlib.crc32(path.read_bytes() if content is None else content)
    _write(path, f"{checksum:08x}")


def unseal(path: Path) -> None:
    """Record, durably, that the file is about to be replaced: it is not checked until it is sealed
    again. A kill in between therefore never makes a good file look damaged."""
    _write(path, _BEING_REPLACED)


def check_seal(path: Path, *, required: bool) -> None:
    """Raise `IndexUnusable` when the file is not what was sealed, or when a ``required`` seal is
    missing or empty. Indexes built before seals existed have none."""
    sealed = _sealed(path)
    for _ in range(_ATTEMPTS):
        before = sealed
        if before == _BEING_REPLACED:
            return
        if not before:
            if required:
                raise IndexUnusable(f"{_place(path)} is missing or empty: {path} is not verifiable")
            return
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return  # opening the file reports that it is missing
        except OSError as error:
            raise IndexUnusable(f"{path} cannot be read: {error}") from error
        checksum = f"{zlib.crc32(content):08x}"
        sealed = _sealed(path)
        if checksum == before:
            return
        if sealed == before:  # and not replaced meanwhile
            break
    raise IndexUnusable(f"{path} is damaged: checksum mismatch")


def _sealed(path: Path) -> str:
    """The seal; empty where there is none."""
    place = _place(path)
    try:
        return place.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise IndexUnusable(f"{place} cannot be read: {error}") from error


def _write(path: Path, text: str) -> None:
    write_atomically(_place(path), f"{text}\n".encode())


def _place(path: Path) -> Path:
    return path.with_name(f"{path.name}.crc32")
