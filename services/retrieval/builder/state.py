"""What a version in the making is made from: whether a killed build can be gone on with."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from services.contracts.index_messages import BuildIndex
from services.contracts.indexes import IndexSpecification
from services.datasets.record import UnreadableFile
from services.retrieval.encoder.specification import EncoderDescription
from services.retrieval.store.layout import VersionFolder, write_atomically

STATE = "build.json"


class BuildState(BaseModel):
    """Lies beside the parts of a version, and stays with it.

    ``build`` names the build that worked on it last. ``passages`` is their number once the text is
    complete; ``encoder`` made the vectors, once there are any.
    """

    model_config = ConfigDict(frozen=True)

    build: str
    specification: IndexSpecification
    corpus: str
    passages: int | None = None
    encoder: EncoderDescription | None = None

    @classmethod
    def of(cls, order: BuildIndex) -> Self:
        """What a build begins with; raises `UnreadableFile` when there is no such corpus."""
        return cls(
            build=order.build,
            specification=order.specification,
            corpus=corpus_identity(order.corpus),
        )

    def is_of_same_index(self, other: "BuildState") -> bool:
        """Whether one can go on with what the other began."""
        return (self.specification, self.corpus) == (other.specification, other.corpus)

    def write(self, version: VersionFolder) -> None:
        """Keep it with the version."""
        write_atomically(version.path / STATE, self.model_dump_json().encode())


def read_state(version: VersionFolder) -> BuildState | None:
    """What was built there, or begun; None when nothing there can be used."""
    try:
        return BuildState.model_validate_json((version.path / STATE).read_bytes())
    except (OSError, ValidationError):
        return None


def corpus_identity(path: Path) -> str:
    """A text that is another one when the corpus has changed, without reading its content."""
    digest = hashlib.sha256(os.fsencode(path.resolve()))
    try:
        for file in _files(path):
            facts = file.stat()
            digest.update(os.fsencode(file) + b"\0")
            digest.update(f"{facts.st_size} {facts.st_mtime_ns}\n".encode())
    except OSError as error:
        raise UnreadableFile(f"the corpus cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder) / name for name in sorted(names))
