"""Detects damaged files of a version by checksums: small ones at open, all in background.

The manifest has those of passages and vectors, for the bytes of the build: changes only append.
Each file of the text index ends with a footer of tantivy's that holds the CRC-32 of the rest. The
manifest and the last commit, which name them all, have seals.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from services.retrieval.store.errors import IndexUnusable, reading_from
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.manifest import Manifest, crc32_of
from services.retrieval.store.seals import check_seal

CHECKED_AT_OPEN = 64 << 20
"""Bytes of a file up to which it is read when a version is opened."""

_FOOTER_END = struct.Struct("<II")  # length of the footer's JSON, magic number
_FOOTER_MAGIC = 1337
_SEGMENT_SUFFIXES = ("term", "idx", "pos", "fieldnorm", "fast", "store")


def check_small_files(version: VersionFolder, manifest: Manifest) -> None:
    """Verify what can be read quickly; raises IndexUnusable naming the damaged file."""
    _check(version, manifest, most=CHECKED_AT_OPEN)


def check_all_files(version: VersionFolder, manifest: Manifest) -> None:
    """Verify every file; reads all of them, which may take minutes."""
    _check(version, manifest, most=None)


def _check(version: VersionFolder, manifest: Manifest, *, most: int | None) -> None:
    for name, checksum in manifest.checksums.items():
        path, size = version.path / name, manifest.files[name]
        with reading_from(path):
            if (most is None or size <= most) and crc32_of(path, size) != checksum:
                raise _damaged(path)
    check_seal(version.commit, required=manifest.sealed)
    for path in _segment_files(version.text):
        try:
            if most is None or path.stat().st_size <= most:
                _check_footer(path)
        except FileNotFoundError:
            continue  # Merged away by a concurrent change; opening fails if it is still needed.


def _segment_files(folder: Path) -> Iterator[Path]:
    """The files of the committed segments of a text index."""
    try:
        segments = json.loads((folder / "meta.json").read_bytes())["segments"]
        for segment in segments:
            name = segment["segment_id"].replace("-", "")
            yield from (folder / f"{name}.{suffix}" for suffix in _SEGMENT_SUFFIXES)
            if segment["deletes"] is not None:
                yield folder / f"{name}.{segment['deletes']['opstamp']}.del"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexUnusable(f"{folder / 'meta.json'} cannot be read: {error!r:.200}") from error


def _check_footer(path: Path) -> None:
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _FOOTER_END.size))
        end = file.read()
        if len(end) < _FOOTER_END.size:
            raise _damaged(path)
        length, magic = _FOOTER_END.unpack(end)
        body = size - _FOOTER_END.size - length
        if magic != _FOOTER_MAGIC or body < 0:
            raise _damaged(path)
        file.seek(body)
        footer = file.read(length)
    try:
        checksum = json.loads(footer)["crc"]
    except (ValueError, KeyError, TypeError):
        raise _damaged(path) from None
    if crc32_of(path, body) != checksum:
        raise _damaged(path)


def _damaged(path: Path) -> IndexUnusable:
    return IndexUnusable(f"{path} is damaged: checksum mismatch")
