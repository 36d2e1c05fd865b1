"""The inputs of a pending version, by which a killed build can be resumed."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from services.contracts.retrieval.index_messages import BuildIndex
from services.contracts.retrieval.indexes import IndexSpecification
from services.datasets.record import UnreadableFile
from services.retrieval.encoder.specification import EncoderDescription
from services.retrieval.store.layout import VersionFolder, write_atomically

STATE = "build.json"


class BuildState(BaseModel):
    """Stored inside the version's folder.

    ``build`` names the build that last worked on it. ``passages`` is set once the text index is
    complete, ``encoder`` once there are vectors.
    """

    model_config = ConfigDict(frozen=True)

    build: str
    specification: IndexSpecification
    corpus: str
    vectors: str | None = None
    passages: int | None = None
    encoder: EncoderDescription | None = None

    @classmethod
    def of(cls, request: BuildIndex) -> Self:
        """The initial state of a build; raises `UnreadableFile` when an input is missing."""
        return cls(
            build=request.build,
            specification=request.specification,
            corpus=identity_of(request.corpus),
            vectors=None if request.vectors is None else identity_of(request.vectors),
        )

    def is_of_same_index(self, other: "BuildState") -> bool:
        """Whether a build can resume what the other began."""
        return (self.specification, self.corpus, self.vectors) == (
            other.specification,
            other.corpus,
            other.vectors,
        )

    def write(self, version: VersionFolder) -> None:
        """Store it with the version."""
        write_atomically(version.path / STATE, self.model_dump_json().encode())


def read_state(version: VersionFolder) -> BuildState | None:
    """The stored state; None when nothing there is usable."""
    try:
        return BuildState.model_validate_json((version.path / STATE).read_bytes())
    except (OSError, ValidationError):
        return None


def identity_of(path: Path) -> str:
    """A digest of paths, sizes and modification times: changes when the file or the folder does,
    without reading it."""
    digest = hashlib.sha256(os.fsencode(path.resolve()))
    try:
        for file in _files(path):
            facts = file.stat()
            digest.update(os.fsencode(file) + b"\0")
            digest.update(f"{facts.st_size} {facts.st_mtime_ns}\n".encode())
    except OSError as error:
        raise UnreadableFile(f"{path.name} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder) / name for name in sorted(names))
