"""Lines of JSON on disk, read by number, so that a mixture can reorder them."""

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Self


class LineFile:
    """Entries of bytes in a file, by their numbers; the file is removed at the exit."""

    def __init__(self, path: Path, entries: Iterable[bytes]) -> None:
        self._path = path
        self._offsets = array("Q", [0])
        with open(path, "wb") as out:
            for entry in entries:
                self._offsets.append(self._offsets[-1] + out.write(entry))
        self._file = open(path, "rb")  # noqa: SIM115 - closed at the exit

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink()

    def entry(self, number: int) -> bytes:
        """An entry as it was written."""
        self._file.seek(self._offsets[number])
        return self._file.read(self._offsets[number + 1] - self._offsets[number])
