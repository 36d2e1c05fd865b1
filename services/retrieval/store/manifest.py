"""The manifest of a version: what it is, and the files that make it complete."""

import os
import time
import zlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.base import JsonObject
from services.contracts.retrieval.indexes import DenseKind, IndexMode
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import VersionFolder, sync_folder, write_atomically
from services.retrieval.store.seals import check_seal, seal

SCHEMA_VERSION = 1


class DenseManifest(BaseModel):
    """The vectors of an index; ``encoder`` describes the model that made them."""

    model_config = ConfigDict(frozen=True)

    kind: DenseKind
    dimension: int = Field(ge=1)
    encoder: JsonObject | None = None

    @property
    def encoder_name(self) -> str | None:
        """Name of the model that made the vectors."""
        return str(self.encoder["model"]) if self.encoder and "model" in self.encoder else None


class Manifest(BaseModel):
    """A version of an index.

    ``documents`` counts the passages at build time, ``created_at`` is in Unix seconds, and
    ``files`` holds the minimum size in bytes of each file, ``checksums`` the CRC-32 of as many.
    ``sealed`` versions are damaged without the seals of their manifest and of their last commit.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    name: str
    mode: IndexMode
    language: str | None
    created_at: int = Field(default_factory=lambda: int(time.time()))
    documents: int = Field(ge=0)
    dense: DenseManifest | None = None
    files: dict[str, int] = {}
    checksums: dict[str, int] = {}
    sealed: bool = False


def finish_version(version: VersionFolder, manifest: Manifest) -> Manifest:
    """Complete a version: sync its files, then write its manifest."""
    for folder in (version.dense, version.passages):
        for path in sorted(folder.rglob("*")) if folder.exists() else []:
            _sync(path)
    sync_folder(version.path)
    files = _sizes(version)
    checksums = {name: crc32_of(version.path / name, size) for name, size in files.items()}
    complete = manifest.model_copy(update={"files": files, "checksums": checksums, "sealed": True})
    content = complete.model_dump_json(indent=1).encode()
    seal(version.manifest, content)
    write_atomically(version.manifest, content)
    return complete


def read_manifest(version: VersionFolder) -> Manifest:
    """Read the manifest and check that all files are there; raises IndexUnusable."""
    check_seal(version.manifest, required=False)  # before it is parsed, to name the cause
    try:
        manifest = Manifest.model_validate_json(version.manifest.read_bytes())
    except FileNotFoundError:
        raise IndexUnusable(f"{version.path} has no manifest.json: it was never finished") from None
    except (OSError, ValidationError) as error:
        raise IndexUnusable(f"{version.manifest} cannot be read: {error}") from error
    check_seal(version.manifest, required=manifest.sealed)
    if manifest.schema_version != SCHEMA_VERSION:
        raise IndexUnusable(
            f"{version.path} has format {manifest.schema_version}, but this release reads"
            f" {SCHEMA_VERSION}: build the index again"
        )
    for name, least in manifest.files.items():
        _check_size(version.path / name, least)
    return manifest


def crc32_of(path: Path, size: int) -> int:
    """CRC-32 of the first ``size`` bytes of a file."""
    checksum = 0
    with open(path, "rb") as file:
        while size > 0 and (piece := file.read(min(size, 1 << 20))):
            checksum = zlib.crc32(piece, checksum)
            size -= len(piece)
    return checksum


def _sizes(version: VersionFolder) -> dict[str, int]:
    """Sizes of the files that changes only extend."""
    return {
        path.relative_to(version.path).as_posix(): path.stat().st_size
        for folder in (version.passages, version.dense)
        if folder.exists()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _check_size(path: Path, least: int) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise IndexUnusable(f"{path} is missing: {error.strerror}") from error
    if size < least:
        raise IndexUnusable(f"{path} has {size} bytes of {least}: it is truncated")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
