"""Files. Uploads and downloads are streamed."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.contracts.base import Deleted, Page
from temper.client import pages
from temper.client.errors import UnexpectedAnswer
from temper.client.transport import Progress, Transport, download

if TYPE_CHECKING:
    from services.contracts.data.file_rows import ExampleRows, FileRows, ShowExamples
    from services.contracts.data.files import File, FilePurpose

__all__ = ["Files", "Progress"]

PATH = "/v1/files"


class Files:
    """/v1/files."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def upload(self, path: Path, purpose: FilePurpose, progress: Progress | None = None) -> File:
        """Upload the file at ``path`` under its own name.

        Raises `UnexpectedAnswer` when the stored size differs, OSError for an unreadable file.
        """
        from services.contracts.data.files import File

        with _CountedFile(path, progress) as body:
            stored = self._transport.upload(PATH, File, {"purpose": purpose.value}, path.name, body)
            sent = body.total
        if stored.bytes != sent:
            raise UnexpectedAnswer(f"{path}: sent {sent} bytes, {stored.bytes} were stored")
        return stored

    def page(self, *, purpose: FilePurpose | None = None, most: int = 20) -> Page[File]:
        """Return up to ``most`` files, newest first."""
        from services.contracts.data.files import File

        query = {"purpose": purpose.value} if purpose else {}
        return pages.page(self._transport, PATH, Page[File], query, most)

    def same_content(self, path: Path, purpose: FilePurpose) -> File | None:
        """Return a stored file with this purpose, name and content, if any."""
        from services.contracts.data.files import File

        size = path.stat().st_size
        digest = ""
        for file in pages.every(self._transport, PATH, Page[File], {"purpose": purpose.value}):
            if (file.filename, file.bytes) != (path.name, size):
                continue
            digest = digest or sha256_of(path)
            if file.sha256 == digest:
                return file
        return None

    def get(self, file_id: str) -> File:
        """Return a file's metadata."""
        from services.contracts.data.files import File

        return self._transport.get(f"{PATH}/{quote(file_id, safe='')}", File)

    def rows(self, file_id: str, *, after: str | None = None, most: int = 20) -> FileRows:
        """Return up to ``most`` rows after the one with this id or number."""
        from services.contracts.data.file_rows import MAX_ROWS_LIMIT, FileRows

        query = {"limit": str(min(most, MAX_ROWS_LIMIT)), **({"after": after} if after else {})}
        path = f"{PATH}/{quote(file_id, safe='')}/rows"
        return self._transport.get(path, FileRows, query)

    def examples(self, file_id: str, asked: ShowExamples) -> ExampleRows:
        """Return rows as training reads them: tokens, and which of them have a loss."""
        from services.contracts.data.file_rows import ExampleRows

        path = f"{PATH}/{quote(file_id, safe='')}/examples"
        return self._transport.post(path, ExampleRows, asked)

    def download(self, file_id: str, target: Path, progress: Progress | None = None) -> None:
        """Write a file's content to ``target``, which appears once complete."""
        address = f"{PATH}/{quote(file_id, safe='')}/content"
        download(self._transport, address, target, progress)

    def delete(self, file_id: str) -> Deleted:
        """Delete a file."""
        return self._transport.delete(f"{PATH}/{quote(file_id, safe='')}", Deleted)


class _CountedFile(io.FileIO):
    """A file that reports how much of it has been read."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        super().__init__(path)
        self.total = os.fstat(self.fileno()).st_size
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(-1 if size is None else size)
        if self._progress is not None:
            self._progress(self.tell(), self.total)
        return chunk or b""


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
