"""Copying to a folder or to a store that fsspec knows."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from services.contracts.base import JsonObject
from services.contracts.models.jobs import FOLDER, scheme_of
from services.trainer.errors import TrainingFailure
from services.trainer.exporting.package import ExportedFile

MANIFEST = "temper_export.json"
"""At the destination: the exporting job, the digests of the files, and whether the export is
complete."""
SENT = "sent.json"
PARTIAL = ".partial"
CHUNK = 8 << 20


class Store:
    """An export to one folder of a store; ``record`` is a file of this job's progress.

    A file is complete or absent at the destination: stores publish an object when it is closed, and
    on disk it is renamed. An interrupted export resumes after the last complete file.
    """

    def __init__(self, destination: str, options: JsonObject, job_id: str, record: Path) -> None:
        self._destination = destination
        self._options = options
        self._job_id = job_id
        self._record = record

    def send(self, files: Sequence[ExportedFile], sent: Callable[[int], None]) -> None:
        """Copy the files, the manifest first and last; ``sent`` is called with bytes as they are
        copied.

        Raises TrainingFailure before any copy if the store is not writable or holds something else
        there.
        """
        system, root = self._open()
        self._claim(system, root)
        digests: dict[str, str] = {}
        if self._record.exists():
            digests = json.loads(self._record.read_bytes())
        for file in files:
            target = f"{root}/{file.name}"
            if file.name in digests and _size(system, target) == file.size:
                sent(file.size)
                continue
            digests[file.name] = self._copy(system, file, target, sent)
            partial = self._record.with_suffix(PARTIAL)
            partial.write_text(json.dumps(digests))
            partial.replace(self._record)
        self._write_manifest(system, root, {"complete": True, "sha256": digests})

    def _open(self) -> tuple[Any, str]:
        try:
            system, root = fsspec.core.url_to_fs(self._destination, **self._options)
        except (ImportError, ValueError) as error:  # an unknown scheme, or its package is missing
            raise TrainingFailure(
                f"{scheme_of(self._destination)}:// cannot be written by the training runtime: "
                f"{error}",
                code="destination_unsupported",
                param="destination",
            ) from error
        return system, str(root)

    def _claim(self, system: Any, root: str) -> None:
        """Check that nothing else is there, and that it is writable."""
        manifest = f"{root}/{MANIFEST}"
        try:
            if system.exists(manifest):
                owner = json.loads(system.cat_file(manifest)).get("job_id")
            else:
                held = system.ls(root, detail=False) if system.exists(root) else []
                is_free = all(str(name).endswith(MANIFEST + PARTIAL) for name in held)
                owner = None if is_free else "something else"
            if owner is None:
                system.makedirs(root, exist_ok=True)
                self._write_manifest(system, root, {"complete": False})
        except Exception as error:  # every store has its own exceptions
            raise TrainingFailure(
                f"{self._destination} cannot be written: {type(error).__name__}: {error}",
                code="destination_refused",
                param="destination",
            ) from error
        if owner not in {None, self._job_id}:
            raise TrainingFailure(
                f"{self._destination} already holds {owner}",
                code="destination_not_empty",
                param="destination",
            )

    def _write_manifest(self, system: Any, root: str, state: JsonObject) -> None:
        content = json.dumps({"job_id": self._job_id, **state}, indent=2).encode()
        with self._sink(system, f"{root}/{MANIFEST}") as sink:
            sink.write(content)

    def _copy(
        self, system: Any, file: ExportedFile, target: str, sent: Callable[[int], None]
    ) -> str:
        digest = hashlib.sha256()
        with open(file.path, "rb") as source, self._sink(system, target) as sink:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                sink.write(chunk)
                sent(len(chunk))
        return digest.hexdigest()

    @contextmanager
    def _sink(self, system: Any, target: str) -> Iterator[Any]:
        """A file that appears at ``target`` once it is complete."""
        is_renamed = scheme_of(self._destination) == FOLDER
        place = f"{target}{PARTIAL}" if is_renamed else target
        with system.open(place, "wb") as sink:
            yield sink
        if is_renamed:
            Path(place).replace(target)


def _size(system: Any, path: str) -> int | None:
    try:
        return int(system.info(path)["size"])
    except FileNotFoundError:
        return None
