"""The declaration of a runtime, read from its folder."""

import hashlib
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.runtimes.installer.uv import count_requirements

DECLARATION = "runtime.toml"
FORMAT = b"1"
"""Changes when the installer builds something different from the same declaration."""

TOP_KEYS = frozenset({"summary", "modules", "cpu", "cuda"})
PART_KEYS = frozenset({"disk_gb", "download_mb", "libraries", "no_deps", "metadata_only", "torch"})
GIGABYTE = 1_000_000_000


class DeclarationError(Exception):
    """An invalid declaration; the message names the file and the key."""


@dataclass(frozen=True)
class IndexedRequirement:
    """A package, and the index to use if pip's own configuration does not have it."""

    requirement: str
    index: str


@dataclass(frozen=True)
class Declaration:
    """A runtime for one accelerator, as README.md explains it.

    ``version`` is equal for two declarations only if they install the same on this Python.
    """

    name: str
    summary: str
    accelerator: str
    version: str
    python: str
    lock: Path
    torch: IndexedRequirement | None
    no_deps: tuple[str, ...]
    metadata_only: tuple[tuple[str, str], ...]
    libraries: tuple[tuple[str, str], ...]
    modules: tuple[str, ...]
    disk_bytes: int
    download_megabytes: int

    @property
    def package_count(self) -> int:
        """How many packages are installed."""
        locked = count_requirements(self.lock)
        return locked + len(self.no_deps) + (self.torch is not None)


def declared(folder: Path) -> list[str]:
    """Names of the runtimes declared below ``folder``."""
    return sorted(path.parent.name for path in folder.glob(f"*/{DECLARATION}"))


def read_declaration(folder: Path, accelerator: str) -> Declaration:
    """Read the declaration in ``folder``; raises `DeclarationError`.

    A runtime declared for the CPU only is the same for every ``accelerator``.
    """
    path = folder / DECLARATION
    try:
        content = path.read_bytes()
        table = tomllib.loads(content.decode())
    except (OSError, ValueError) as error:
        raise DeclarationError(f"{path}: {error}") from None
    top = _Table(path, "", table, TOP_KEYS)
    if "cuda" not in table:
        accelerator = "cpu"
    part = top.table(accelerator, PART_KEYS)
    lock = folder / f"{accelerator}.txt"
    if not lock.is_file():
        raise DeclarationError(f"{lock} is missing; README.md says how a lock is compiled")
    python = platform.python_version()
    fingerprint = hashlib.sha256()
    for item in (FORMAT, content, lock.read_bytes(), python.encode(), accelerator.encode()):
        fingerprint.update(len(item).to_bytes(8, "big") + item)
    return Declaration(
        name=folder.name,
        summary=top.text("summary"),
        accelerator=accelerator,
        version=fingerprint.hexdigest()[:16],
        python=python,
        lock=lock,
        torch=_torch(part),
        no_deps=part.texts("no_deps"),
        metadata_only=tuple(part.pinned(text) for text in part.texts("metadata_only")),
        libraries=_libraries(part),
        modules=top.texts("modules"),
        disk_bytes=int(part.number("disk_gb") * GIGABYTE),
        download_megabytes=int(part.number("download_mb")),
    )


def _torch(part: "_Table") -> IndexedRequirement | None:
    if "torch" not in part.values:
        return None
    table = part.table("torch", frozenset({"requirement", "index"}))
    return IndexedRequirement(table.text("requirement"), table.text("index"))


def _libraries(part: "_Table") -> tuple[tuple[str, str], ...]:
    if "libraries" not in part.values:
        return ()
    table = part.table("libraries", None)
    return tuple((library, table.text(library)) for library in table.values)


class _Table:
    """A TOML table whose keys and types are checked, so that a typo is never silent."""

    def __init__(
        self, path: Path, name: str, values: Mapping[str, Any], known: frozenset[str] | None
    ) -> None:
        self.values = values
        self._where = f"{path}: {name}" if name else f"{path}:"
        self._path = path
        if known is not None and (unknown := values.keys() - known):
            raise DeclarationError(f"{self._where} unknown key {min(unknown)!r}")

    def table(self, key: str, known: frozenset[str] | None) -> "_Table":
        return _Table(self._path, f"[{key}]", self._get(key, dict), known)

    def text(self, key: str) -> str:
        return str(self._get(key, str))

    def number(self, key: str) -> float:
        return float(self._get(key, (int, float)))

    def texts(self, key: str) -> tuple[str, ...]:
        if key not in self.values:
            return ()
        items = self._get(key, list)
        if not all(isinstance(item, str) for item in items):
            raise DeclarationError(f"{self._where} {key!r} must be a list of strings")
        return tuple(items)

    def pinned(self, requirement: str) -> tuple[str, str]:
        name, separator, version = requirement.partition("==")
        if not separator:
            raise DeclarationError(f"{self._where} {requirement!r} must be name==version")
        return name.strip(), version.strip()

    def _get(self, key: str, kind: type | tuple[type, ...]) -> Any:
        value = self.values.get(key)
        if not isinstance(value, kind):
            raise DeclarationError(f"{self._where} {key!r} is missing or of the wrong type")
        return value
