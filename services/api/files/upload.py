"""Multipart uploads, streamed to disk with a checksum in constant memory."""

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from starlette.requests import ClientDisconnect

from services.api.files.expiry import EXPIRY_PARTS, read_expiry
from services.api.files.form_parser import (
    BaseTarget,
    MaxSizeValidator,
    ParseFailedException,
    StreamingFormDataParser,
    ValidationError,
    ValueTarget,
)
from services.contracts.data.files import ExpiresAfter, FilePurpose
from services.contracts.errors import InvalidRequest, PayloadTooLarge, StorageFull

BATCH_BYTES = 1 << 20
FORM_BYTES = 1 << 20
"""Maximum size of a form without its file."""
MAX_FIELD_BYTES = 1000
MAX_FILENAME = 255
ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Upload:
    """A completely received file, still under its temporary name."""

    path: Path
    filename: str
    purpose: FilePurpose
    bytes: int
    sha256: str
    expires_after: ExpiresAfter | None = None


def remove_abandoned_uploads(folder: Path) -> None:
    """Delete partial files of gateways that were killed during an upload."""
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # the upload has just ended
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()


class _DiskTarget(BaseTarget):  # type: ignore[misc]  # streaming_form_data is untyped
    """Writes a part to disk while it arrives. ``field`` is its name in the form."""

    def __init__(self, file: IO[bytes], max_bytes: int, field: str) -> None:
        super().__init__()
        self.field = field
        self._file = file
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.parts = 0
        self.complete = False

    def on_start(self) -> None:
        self.parts += 1
        if self.parts > 1:
            raise InvalidRequest(f"the form has two parts named {self.field}", param=self.field)

    def on_data_received(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        if self.bytes > self._max_bytes:
            raise PayloadTooLarge(
                f"{self.field} is larger than {self._max_bytes} bytes", param=self.field
            )
        self._hash.update(chunk)
        self._file.write(chunk)

    def on_finish(self) -> None:
        self.complete = True

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


async def receive_upload(request: Request, path: Path, max_bytes: int) -> Upload:
    """Receive the parts ``file`` and ``purpose`` and write the file to ``path``.

    Raises `InvalidRequest` for anything that is not such a form, `PayloadTooLarge`, and
    `StorageFull`. Nothing is left on disk after an error or a disconnect.
    """
    names = ("purpose", *EXPIRY_PARTS)
    fields = {name: ValueTarget(validator=MaxSizeValidator(MAX_FIELD_BYTES)) for name in names}
    async with _new_file(path) as file:
        content = _DiskTarget(file, max_bytes, "file")
        await _receive(request, content, fields)
        upload = Upload(
            path=path,
            filename=printable_name(content.multipart_filename),
            purpose=_purpose(fields["purpose"].value),
            bytes=content.bytes,
            sha256=content.sha256,
            expires_after=read_expiry({name: fields[name].value for name in EXPIRY_PARTS}),
        )
        await asyncio.to_thread(_flush, file)
    return upload


async def receive_part(request: Request, path: Path, max_bytes: int) -> None:
    """Receive the part ``data`` and write it to ``path``; raises as `receive_upload` does."""
    async with _new_file(path) as file:
        await _receive(request, _DiskTarget(file, max_bytes, "data"), {})
        await asyncio.to_thread(_flush, file)


@asynccontextmanager
async def _new_file(path: Path) -> AsyncIterator[IO[bytes]]:
    """A new file that is deleted if the block raises."""
    with storage_errors():
        file = await asyncio.to_thread(_create, path)
        try:
            yield file
        except BaseException:
            await asyncio.to_thread(_discard, file, path)
            raise
        file.close()


async def _receive(
    request: Request, content: _DiskTarget, fields: Mapping[str, BaseTarget]
) -> None:
    """Parse a form with one file and small fields."""
    try:
        parser = StreamingFormDataParser(headers=dict(request.headers))
        parser.register(content.field, content)
        for name, target in fields.items():
            parser.register(name, target)
        received = 0
        async for batch in _batches(request):
            await asyncio.to_thread(parser.data_received, batch)
            received += len(batch)
            # The parser keeps the headers of a part in memory until they end.
            if received - content.bytes > FORM_BYTES:
                raise PayloadTooLarge(f"the form holds over {FORM_BYTES} bytes beside the file")
    except (ParseFailedException, ValidationError, UnicodeDecodeError, ClientDisconnect) as error:
        raise InvalidRequest(f"not a complete multipart form: {error}") from error
    if not content.parts:
        raise InvalidRequest(f"the form has no part named {content.field}", param=content.field)
    if not content.complete:
        raise InvalidRequest(f"the form ends before {content.field} does", param=content.field)


async def _batches(request: Request) -> AsyncIterator[bytes]:
    """The body in batches that amortize the hand-off to a thread."""
    pending = bytearray()
    async for chunk in request.stream():
        pending += chunk
        if len(pending) >= BATCH_BYTES:
            yield bytes(pending)
            pending.clear()
    yield bytes(pending)


def _purpose(value: bytes) -> FilePurpose:
    try:
        purpose = FilePurpose(value.decode())
        if purpose in FilePurpose.uploads():
            return purpose
    except ValueError:
        pass
    known = ", ".join(FilePurpose.uploads())
    raise InvalidRequest(f"purpose is missing or unknown; one of: {known}", param="purpose")


def printable_name(name: str | None) -> str:
    """The client's file name, for display only; it is never used as a path."""
    base = (name or "").replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in base if char.isprintable())
    return printable[:MAX_FILENAME] or "file"


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn the error of a full disk into `StorageFull`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFull("the disk is full; the file was not stored", param="file") from error
        raise


def _create(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "wb")


def _discard(file: IO[bytes], path: Path) -> None:
    with suppress(OSError):
        file.close()  # flushes again, which fails on a full disk
    path.unlink(missing_ok=True)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
