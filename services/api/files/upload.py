"""Receiving a multipart upload: straight to disk, in constant memory, checksummed."""

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from starlette.requests import ClientDisconnect
from streaming_form_data import StreamingFormDataParser
from streaming_form_data.parser import ParseFailedException
from streaming_form_data.targets import BaseTarget, ValueTarget
from streaming_form_data.validators import MaxSizeValidator, ValidationError

from services.contracts.errors import InvalidRequest, PayloadTooLarge, StorageFull
from services.contracts.files import FilePurpose

BATCH_BYTES = 1 << 20
FORM_BYTES = 1 << 20
"""What a form may hold beside the file."""
MAX_FIELD_BYTES = 1000
MAX_FILENAME = 255
ABANDONED_SECONDS = 24 * 3600.0


EXPIRY_PARTS = ("expires_after", "expires_after[anchor]", "expires_after[seconds]")
"""OpenAI's expiry policy, in the names under which its clients send it."""


@dataclass(frozen=True)
class Upload:
    """A completely received file, still under its temporary name."""

    path: Path
    filename: str
    purpose: FilePurpose
    bytes: int
    sha256: str


def remove_abandoned_uploads(folder: Path) -> None:
    """Delete what gateways left that were killed while they received a file."""
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # it was an upload that has come to its end
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()


class _DiskTarget(BaseTarget):  # type: ignore[misc]
    """Writes a part to disk while it arrives."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self.bytes = 0
        self.parts = 0
        self.complete = False

    def on_start(self) -> None:
        self.parts += 1
        if self.parts > 1:
            raise InvalidRequest("the form has two parts named file", param="file")

    def on_data_received(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        if self.bytes > self._max_bytes:
            raise PayloadTooLarge(f"the file is larger than {self._max_bytes} bytes", param="file")
        self._hash.update(chunk)
        self._file.write(chunk)

    def on_finish(self) -> None:
        self.complete = True

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class _RefusedTarget(BaseTarget):  # type: ignore[misc]
    """A part that means something which is not done here."""

    def __init__(self, param: str) -> None:
        super().__init__()
        self._param = param

    def on_start(self) -> None:
        raise InvalidRequest(
            f"{self._param} is not supported: files stay until they are deleted", param=self._param
        )


async def receive_upload(request: Request, path: Path, max_bytes: int) -> Upload:
    """Receive the parts ``file`` and ``purpose`` and write the file to ``path``.

    Raises `InvalidRequest` for anything that is not such a form, `PayloadTooLarge`, and
    `StorageFull`; nothing is left on disk then, nor when the client goes away.
    """
    with _storage_errors():
        file = await asyncio.to_thread(_create, path)
        try:
            upload = await _receive(request, path, file, max_bytes)
            await asyncio.to_thread(_flush, file)
        except BaseException:
            await asyncio.to_thread(_discard, file, path)
            raise
        file.close()
        return upload


async def _receive(request: Request, path: Path, file: IO[bytes], max_bytes: int) -> Upload:
    content = _DiskTarget(file, max_bytes)
    purpose = ValueTarget(validator=MaxSizeValidator(MAX_FIELD_BYTES))
    try:
        parser = StreamingFormDataParser(headers=dict(request.headers))
        parser.register("file", content)
        parser.register("purpose", purpose)
        for name in EXPIRY_PARTS:
            parser.register(name, _RefusedTarget("expires_after"))
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
        raise InvalidRequest("the form has no part named file", param="file")
    if not content.complete:
        raise InvalidRequest("the form ends before the file does", param="file")
    return Upload(
        path=path,
        filename=_filename(content.multipart_filename),
        purpose=_purpose(purpose.value),
        bytes=content.bytes,
        sha256=content.sha256,
    )


async def _batches(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces large enough that handing them to a thread costs little."""
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


def _filename(name: str | None) -> str:
    """The client's name for people to read; it never names anything on disk."""
    base = (name or "").replace("\\", "/").rpartition("/")[2]
    printable = "".join(char for char in base if char.isprintable())
    return printable[:MAX_FILENAME] or "file"


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageFull("the disk is full; the file was not kept", param="file") from error
        raise


def _create(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "wb")


def _discard(file: IO[bytes], path: Path) -> None:
    with suppress(OSError):
        file.close()  # tries once more to write what the full disk did not take
    path.unlink(missing_ok=True)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
