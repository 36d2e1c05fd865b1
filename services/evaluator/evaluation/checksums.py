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
"""Files whose checksums are cached; the oldest are evicted."""
_BLOCK = 8 << 20


class FileState(BaseModel):
    """What changes with the content of a file; the time of the change cannot be set back."""

    model_config = ConfigDict(frozen=True)

    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The current state of a file. Raises `OSError`."""
        found = path.stat()
        return cls(size=found.st_size, modified_ns=found.st_mtime_ns, changed_ns=found.st_ctime_ns)


class _Known(BaseModel):
    state: FileState
    sha256: str


class _KnownFiles(RootModel[dict[str, _Known]]):
    """By path, in the order in which they were computed."""


class Checksums:
    """SHA-256 of files, cached in one file of a host.

    An unreadable cache counts as empty, and one that cannot be written is not saved. Of two
    processes that save concurrently, one may lose its checksums, which are computed again.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._known: dict[str, _Known] = {}
        with suppress(OSError, ValidationError):
            self._known = _KnownFiles.model_validate_json(path.read_bytes()).root

    def of(self, file: Path, read: Callable[[int], None]) -> str:
        """The checksum of a file; ``read`` is called with the bytes processed. Raises `OSError`."""
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
        """Save the checksums atomically."""
        newest = dict(list(self._known.items())[-self._most :])
        with suppress(OSError), tempfile.TemporaryDirectory(dir=self._path.parent) as folder:
            partial = Path(folder) / FILE
            partial.write_text(_KnownFiles(newest).model_dump_json())
            partial.replace(self._path)
