"""The files of a vector index and their description."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.files import write_whole

FORMAT = 1

_CHECKED_BYTES = 64 << 20
"""Files up to this size are checksummed when an index is opened; larger ones by size only."""


@dataclass(frozen=True, slots=True)
class DenseFolder:
    """File names of a vector index; each kind uses some of them."""

    path: Path

    @property
    def description(self) -> Path:
        """Description of the finished index; written last."""
        return self.path / "dense.json"

    @property
    def making(self) -> Path:
        """What the running build produces."""
        return self.path / "making.json"

    @property
    def vectors(self) -> Path:
        """Full-precision vectors: the flat index, or the input of a build."""
        return self.path / "vectors.f32"

    @property
    def quantizer(self) -> Path:
        """Quantizer of `codes`."""
        return self.path / "quantizer.faiss"

    @property
    def codes(self) -> Path:
        """8-bit codes, one row per vector."""
        return self.path / "codes.u8"

    @property
    def base(self) -> Path:
        """The HNSW graph, or the IVF index."""
        return self.path / "base.faiss"

    @property
    def lists(self) -> Path:
        """Inverted lists."""
        return self.path / "lists.bin"

    @property
    def trained(self) -> Path:
        """Trained, empty IVF index."""
        return self.path / "trained.faiss"

    def block(self, number: int) -> Path:
        """A block of rows added to the trained IVF index."""
        return self.path / f"block-{number:06}.faiss"

    @property
    def added(self) -> Path:
        """Vectors added after the build."""
        return self.path / "added.log"


class FileChecksum(BaseModel):
    """Size and CRC-32 of a file; ``crc32`` is None for a large one."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    crc32: int | None


class Description(BaseModel):
    """A finished index: kind, shape and files."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    kind: DenseKind
    dimension: int = Field(ge=1)
    rows: int = Field(ge=0)
    files: dict[str, FileChecksum]


class BuildPlan(BaseModel):
    """What a build produces; leftovers of a different plan are discarded."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    kind: DenseKind
    dimension: int
    rows: int


def describe(
    folder: DenseFolder, kind: DenseKind, dimension: int, rows: int, files: Iterable[Path]
) -> Description:
    """Write the description that completes the index in ``folder``."""
    marks = {path.name: _mark(path) for path in files}
    description = Description(kind=kind, dimension=dimension, rows=rows, files=marks)
    content = description.model_dump_json(indent=1).encode()
    write_whole(folder.description, lambda aside: _write(aside, content))
    return description


def read_description(folder: DenseFolder) -> Description:
    """Read the description and verify the files; raises VectorsUnusable."""
    path = folder.description
    try:
        description = Description.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise VectorsUnusable(path, "missing: the index was never finished") from None
    except (OSError, ValidationError) as error:
        raise VectorsUnusable(path, f"cannot be read: {error}") from error
    if description.format != FORMAT:
        raise VectorsUnusable(
            path, f"has format {description.format}, and this release reads {FORMAT}"
        )
    for name, mark in description.files.items():
        _check(folder.path / name, mark)
    return description


def write_plan(folder: DenseFolder, making: BuildPlan) -> None:
    """Record what the build produces."""
    content = making.model_dump_json().encode()
    write_whole(folder.making, lambda aside: _write(aside, content))


def read_plan(folder: DenseFolder) -> BuildPlan | None:
    """The plan of an earlier build, if readable."""
    try:
        return BuildPlan.model_validate_json(folder.making.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _mark(path: Path) -> FileChecksum:
    size = path.stat().st_size
    return FileChecksum(size=size, crc32=_crc32(path) if size <= _CHECKED_BYTES else None)


def _check(path: Path, mark: FileChecksum) -> None:
    try:
        size = path.stat().st_size
        if size != mark.size:
            raise VectorsUnusable(path, f"has {size:,} bytes instead of {mark.size:,}")
        if mark.crc32 is not None and _crc32(path) != mark.crc32:
            raise VectorsUnusable(path, "is damaged: checksum mismatch")
    except FileNotFoundError:
        raise VectorsUnusable(path, "is missing") from None
    except OSError as error:
        raise VectorsUnusable(path, f"cannot be read: {error.strerror}") from error


def _crc32(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            value = zlib.crc32(piece, value)
    return value
