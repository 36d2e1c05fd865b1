"""Checksums of large files, which are computed once for every state of a file."""

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

FILE = "checksums.json"
MOST = 10_000
"""Files whose checksums are kept; those computed first leave."""
_BLOCK = 8 << 20


class FileState(BaseModel):
    """What changes with the content of a file; the time of the change cannot be set back."""

    model_config = ConfigDict(frozen=True)

    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The state of a file now. Raises `OSError`."""
        found = path.stat()
        return cls(size=found.st_size, modified_ns=found.st_mtime_ns, changed_ns=found.st_ctime_ns)


class _Known(BaseModel):
    state: FileState
    sha256: str


class _KnownFiles(RootModel[dict[str, _Known]]):
    """By path, in the order in which they were computed."""


class Checksums:
    """SHA-256 of files, kept in one file of a host.

    If it cannot be read, it is as good as an empty one, and if it cannot be written, nothing is
    kept. Of two processes that keep checksums at
    the same time, one may lose its own, which are computed again.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._known: dict[str, _Known] = {}
        with suppress(OSError, ValidationError):
            self._known = _KnownFiles.model_validate_json(path.read_bytes()).root

    def of(self, file: Path, read: Callable[[int], None]) -> str:
        """The checksum of a file; ``read`` is told the bytes done with. Raises `OSError`."""
        state, name = FileState.of(file), str(file)
        known = self._known.get(name)
        if known is not None and known.state == state:
            read(state.size)
            return known.sha256
        digest = hashlib.sha256()
        with open(file, "rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
                read(len(block))
        self._known.pop(name, None)
        self._known[name] = _Known(state=state, sha256=digest.hexdigest())
        return digest.hexdigest()

    def keep(self) -> None:
        """Write the checksums to their file, atomically."""
        newest = dict(list(self._known.items())[-self._most :])
        with suppress(OSError), tempfile.TemporaryDirectory(dir=self._path.parent) as folder:
            partial = Path(folder) / FILE
            partial.write_text(_KnownFiles(newest).model_dump_json())
            partial.replace(self._path)
