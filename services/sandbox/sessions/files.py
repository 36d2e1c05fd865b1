"""Files in the work directory of a notebook."""

import errno

from services.contracts.errors import Conflict, NotFound, PayloadTooLarge, StorageFull, TemperError
from services.contracts.sandbox_sessions import SessionFile
from services.sandbox.guest.frames import Header
from services.sandbox.sessions.messages import Entry, FileAnswer
from services.sandbox.sessions.notebook import Notebook


async def write_file(notebook: Notebook, path: str, content: bytes) -> SessionFile:
    """Make or replace a file.

    This and the others raise `NotebookEnded`, and the `TemperError` that fits when a path leads
    to no file, or there is no room.
    """
    answer, _ = await _ask(notebook, {"type": "write", "path": path}, content)
    return next(map(_view, answer.entries), SessionFile(id=path, bytes=0, modified_at=0))


async def read_file(notebook: Notebook, path: str, most_bytes: int) -> bytes:
    """The content of a file of at most ``most_bytes``."""
    _, content = await _ask(notebook, {"type": "read", "path": path, "most_bytes": most_bytes})
    return content


async def list_files(
    notebook: Notebook, after: str | None, limit: int
) -> tuple[list[SessionFile], bool]:
    """The first files by path, behind ``after``, and whether there are more."""
    header = {"type": "list", "after": after or "", "limit": limit + 1}
    answer, _ = await _ask(notebook, header)
    return [_view(entry) for entry in answer.entries[:limit]], len(answer.entries) > limit


async def _ask(notebook: Notebook, header: Header, body: bytes = b"") -> tuple[FileAnswer, bytes]:
    answer, content = await notebook.ask(header, body)
    if answer.error is not None:
        raise _refusal(answer.error, str(header.get("path", ""))[:200])
    return answer, content


def _view(entry: Entry) -> SessionFile:
    return SessionFile(id=entry.path, bytes=entry.bytes, modified_at=entry.modified)


def _refusal(number: int, path: str) -> TemperError:
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return NotFound(f"no file {path!r}", param="path", code="file_not_found")
        case errno.EFBIG:
            return PayloadTooLarge(f"{path!r} is larger than a file may be", param="path")
        case errno.ENOSPC | errno.EDQUOT:
            return StorageFull(f"there is no room for {path!r}", param="path")
    return Conflict(f"{path!r} is no file, or leads through a link", param="path", code="no_file")
