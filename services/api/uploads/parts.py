"""Parts of uploads on disk: a folder for each upload, a file for each part."""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from services.api.files.upload import Upload, printable_name, storage_errors
from services.contracts.data.files import MAX_PART_BYTES, MAX_PARTS, CreateUpload
from services.contracts.errors import Conflict, InvalidRequest, NotFound

TTL_SECONDS = 3600
STALE_SECONDS = 24 * 3600.0
MAX_UPLOADS = 1000
COPY_BYTES = 1 << 20
STATE = "upload.json"
RECEIVING = "receiving-"
_UPLOAD_ID = re.compile(r"upload_([0-9a-f]{24})")
_PART_ID = re.compile(r"part_[0-9a-f]{24}")


class UploadState(BaseModel):
    """The state of an upload, stored beside its parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    created_at: float
    request: CreateUpload
    cancelled: bool = False
    completed: bool = False

    @property
    def file_id(self) -> str:
        """The id of the resulting file; derived, so that completing twice creates one file."""
        return self.id.replace("upload_", "file-", 1)

    @property
    def expires_at(self) -> float:
        """Unix time from which it rejects parts."""
        return self.created_at + TTL_SECONDS

    def check_pending(self) -> None:
        """Raise `Conflict` once it accepts no more parts."""
        if self.completed:
            raise Conflict(f"upload {self.id} is completed", code="upload_completed")
        if self.cancelled:
            raise Conflict(f"upload {self.id} was cancelled", code="upload_cancelled")
        if time.time() >= self.expires_at:
            raise Conflict(f"upload {self.id} has expired", code="upload_expired")


@dataclass(frozen=True)
class UploadParts:
    """The parts of all uploads below ``root``. Methods block."""

    root: Path

    def create(self, request: CreateUpload) -> UploadState:
        """Create an upload. Raises `Conflict` when there are too many, `StorageFull`."""
        self.remove_stale()
        self.root.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in self.root.iterdir()) >= MAX_UPLOADS:
            raise Conflict(f"{MAX_UPLOADS} uploads were made in 24 hours", code="too_many_uploads")
        named = request.model_copy(update={"filename": printable_name(request.filename)})
        upload_id = f"upload_{secrets.token_hex(12)}"
        state = UploadState(id=upload_id, created_at=time.time(), request=named)
        folder = self.root / upload_id
        try:
            with storage_errors():
                folder.mkdir()
                self._write(state)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return state

    def read(self, upload_id: str) -> UploadState:
        """The state of an upload. Raises `NotFound`."""
        if _UPLOAD_ID.fullmatch(upload_id):
            with suppress(FileNotFoundError):
                text = (self.root / upload_id / STATE).read_bytes()
                return UploadState.model_validate_json(text)
        raise NotFound(f"upload {upload_id[:80]!r} does not exist", param="upload_id")

    def receiving(self, state: UploadState) -> Path:
        """A new path for a part while it is received."""
        return self.root / state.id / f"{RECEIVING}{secrets.token_hex(12)}"

    def add(self, state: UploadState, received: Path) -> str:
        """Add a received part; return its id.

        Raises `Conflict` for too many parts, or more than twice the file's size in total: a part
        may be resent after a lost response.
        """
        with _conflict_if_removed(state):
            sizes = self._sizes(state)
            size = received.stat().st_size
        if len(sizes) >= MAX_PARTS:
            raise Conflict(f"upload {state.id} has {MAX_PARTS} parts", code="too_many_parts")
        if sum(sizes.values()) + size > 2 * state.request.bytes + MAX_PART_BYTES:
            raise Conflict(
                f"the parts of upload {state.id} are larger than its file of"
                f" {state.request.bytes} bytes",
                code="too_many_parts",
            )
        part_id = f"part_{secrets.token_hex(12)}"
        path = received.with_name(part_id)
        with _conflict_if_removed(state):
            received.rename(path)
        try:
            self.read(state.id).check_pending()  # otherwise nothing would remove the part
        except Conflict:
            path.unlink(missing_ok=True)
            raise
        return part_id

    def assemble(self, state: UploadState, part_ids: list[str], md5: str | None) -> Upload:
        """Concatenate parts in a folder of their own. Raises `InvalidRequest` and `StorageFull`."""
        with _conflict_if_removed(state):
            paths = self._part_paths(state, part_ids)
            folder = self.receiving(state)
            folder.mkdir()
        path = folder / state.file_id
        try:
            with _conflict_if_removed(state), storage_errors(), path.open("xb") as whole:
                sums = _copy(paths, whole)
            if md5 is not None and sums.md5 != md5.lower():
                raise InvalidRequest(f"the md5 of the parts is {sums.md5}", param="md5")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        file = state.request
        return Upload(
            path, file.filename, file.purpose, file.bytes, sums.sha256, file.expires_after
        )

    def cancel(self, state: UploadState) -> UploadState:
        """Reject further parts, and remove the existing ones."""
        return self._end(state.model_copy(update={"cancelled": True}))

    def complete(self, state: UploadState) -> UploadState:
        """Remove the parts of an upload that has become a file."""
        return self._end(state.model_copy(update={"completed": True}))

    def _end(self, state: UploadState) -> UploadState:
        with storage_errors():
            try:
                self._write(state)
            except OSError:  # as on a full disk: the parts make room
                self._remove_parts(state)
                self._write(state)
        self._remove_parts(state)
        return state

    def _remove_parts(self, state: UploadState) -> None:
        for path in (self.root / state.id).iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith(("part_", RECEIVING)):
                path.unlink(missing_ok=True)

    def remove_stale(self) -> None:
        """Remove uploads older than a day, completed or not."""
        for folder in self.root.glob("upload_*"):
            with suppress(FileNotFoundError):
                if folder.stat().st_ctime < time.time() - STALE_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def _write(self, state: UploadState) -> None:
        path = self.root / state.id / STATE
        written = path.with_name(f"state-{secrets.token_hex(12)}")
        try:
            written.write_text(state.model_dump_json())
            written.replace(path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise

    def _sizes(self, state: UploadState) -> dict[str, int]:
        folder = self.root / state.id
        return {path.name: path.stat().st_size for path in folder.glob("part_*")}

    def _part_paths(self, state: UploadState, part_ids: list[str]) -> list[Path]:
        sizes = self._sizes(state)
        for index, part_id in enumerate(part_ids):
            if not _PART_ID.fullmatch(part_id) or part_id not in sizes:
                raise InvalidRequest(
                    f"upload {state.id} has no part {part_id!r}", param=f"part_ids[{index}]"
                )
        if len(set(part_ids)) < len(part_ids):
            raise InvalidRequest("a part is named twice", param="part_ids")
        total = sum(sizes[part_id] for part_id in part_ids)
        if total != state.request.bytes:
            raise InvalidRequest(
                f"the parts hold {total} bytes, the upload was created for {state.request.bytes}",
                param="part_ids",
            )
        return [self.root / state.id / part_id for part_id in part_ids]


@contextmanager
def _conflict_if_removed(state: UploadState) -> Iterator[None]:
    """Raise `Conflict` if parts were removed because the upload was completed or cancelled."""
    try:
        yield
    except FileNotFoundError as error:
        raise Conflict(
            f"upload {state.id} was completed or cancelled concurrently", code="upload_changed"
        ) from error


@dataclass(frozen=True)
class _Sums:
    md5: str
    sha256: str


def _copy(paths: list[Path], whole: IO[bytes]) -> _Sums:
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    for path in paths:
        with path.open("rb") as part:
            while chunk := part.read(COPY_BYTES):
                md5.update(chunk)
                sha256.update(chunk)
                whole.write(chunk)
    whole.flush()
    os.fsync(whole.fileno())
    return _Sums(md5.hexdigest(), sha256.hexdigest())
