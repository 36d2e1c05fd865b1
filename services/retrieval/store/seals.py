"""Checksums beside small files that are replaced as a whole: the manifest, and the last commit."""

import zlib
from contextlib import suppress
from pathlib import Path

from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import sync_folder

_ATTEMPTS = 10
"""Readings of a file that is being replaced, before it counts as damaged."""


def seal(path: Path, content: bytes | None = None) -> None:
    """Write the checksum of ``content``, or of what the file holds."""
    checksum = zlib.crc32(path.read_bytes() if content is None else content)
    place = _place(path)
    aside = place.with_name(f".{place.name}.new")
    aside.write_text(f"{checksum:08x}\n")
    aside.replace(place)


def unseal(path: Path) -> None:
    """Remove the checksum, durably: the file is about to be replaced, and is not checked until it
    is sealed again. A kill in between therefore never makes a good file look damaged."""
    with suppress(FileNotFoundError):
        _place(path).unlink()
        sync_folder(path.parent)


def check_seal(path: Path) -> None:
    """Raise `IndexUnusable` when the file is not what was sealed; one without a seal passes."""
    sealed = _sealed(path)
    for _ in range(_ATTEMPTS):
        before = sealed
        if before is None:
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


def _sealed(path: Path) -> str | None:
    try:
        return _place(path).read_text("utf-8", "replace").strip() or None
    except FileNotFoundError:
        return None


def _place(path: Path) -> Path:
    return path.with_name(f"{path.name}.crc32")
