"""What an index of vectors consists of, as its folder tells."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.indexes import DenseKind
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.files import write_whole

FORMAT = 1

_CHECKED_BYTES = 64 << 20
"""Files up to this are read to their end when an index is opened; of greater ones, the size."""


@dataclass(frozen=True, slots=True)
class DenseFolder:
    """The files of an index, some of which each kind has."""

    path: Path

    @property
    def description(self) -> Path:
        """What there is; written last."""
        return self.path / "dense.json"

    @property
    def making(self) -> Path:
        """What a build makes of the vectors, while it does."""
        return self.path / "making.json"

    @property
    def vectors(self) -> Path:
        """The vectors in full: all that is searched, or what a build starts from."""
        return self.path / "vectors.f32"

    @property
    def quantizer(self) -> Path:
        """How the bytes of `codes` are read."""
        return self.path / "quantizer.faiss"

    @property
    def codes(self) -> Path:
        """Every vector, a byte a dimension, by row."""
        return self.path / "codes.u8"

    @property
    def base(self) -> Path:
        """The graph, or the clusters."""
        return self.path / "base.faiss"

    @property
    def lists(self) -> Path:
        """What is in the clusters."""
        return self.path / "lists.bin"

    @property
    def trained(self) -> Path:
        """The clusters before anything is in them."""
        return self.path / "trained.faiss"

    def block(self, number: int) -> Path:
        """Clusters with some of the rows."""
        return self.path / f"block-{number:06}.faiss"

    @property
    def added(self) -> Path:
        """The vectors that came after the build."""
        return self.path / "added.log"


class FileMark(BaseModel):
    """By what one sees that a file is whole. ``crc32`` is of its content, None for a great one."""

    model_config = ConfigDict(frozen=True)

    size: int = Field(ge=0)
    crc32: int | None


class Description(BaseModel):
    """A finished index: how its vectors are stored, and in which files."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    kind: DenseKind
    dimension: int = Field(ge=1)
    rows: int = Field(ge=0)
    files: dict[str, FileMark]


class Making(BaseModel):
    """What a build makes: files of another one are of no use to it."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    kind: DenseKind
    dimension: int
    rows: int


def describe(
    folder: DenseFolder, kind: DenseKind, dimension: int, rows: int, files: Iterable[Path]
) -> Description:
    """Declare the index of ``folder`` finished."""
    marks = {path.name: _mark(path) for path in files}
    description = Description(kind=kind, dimension=dimension, rows=rows, files=marks)
    content = description.model_dump_json(indent=1).encode()
    write_whole(folder.description, lambda aside: _write(aside, content))
    return description


def read_description(folder: DenseFolder) -> Description:
    """What the index of ``folder`` is, its files having been looked at; raises VectorsUnusable."""
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


def keep_making(folder: DenseFolder, making: Making) -> None:
    """Remember what a build makes."""
    content = making.model_dump_json().encode()
    write_whole(folder.making, lambda aside: _write(aside, content))


def read_making(folder: DenseFolder) -> Making | None:
    """What an earlier build was making here, if one can tell."""
    try:
        return Making.model_validate_json(folder.making.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _mark(path: Path) -> FileMark:
    size = path.stat().st_size
    return FileMark(size=size, crc32=_crc32(path) if size <= _CHECKED_BYTES else None)


def _check(path: Path, mark: FileMark) -> None:
    try:
        size = path.stat().st_size
        if size != mark.size:
            raise VectorsUnusable(path, f"has {size:,} bytes instead of {mark.size:,}")
        if mark.crc32 is not None and _crc32(path) != mark.crc32:
            raise VectorsUnusable(path, "is damaged: its checksum is another")
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
