"""Notes about jobs and their trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from services.contracts.base import Deleted, Page
from temper.client import pages
from temper.client.transport import Transport

if TYPE_CHECKING:
    from services.contracts.notes import Note


class Notes:
    """/v1/jobs/{id}/notes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def write(self, job_id: str, text: str, trajectory_id: str | None = None) -> Note:
        """Write a note about a job, or about one of its trajectories."""
        from services.contracts.notes import CreateNote, Note

        body = CreateNote(text=text, trajectory_id=trajectory_id)
        return self._transport.post(_path(job_id), Note, body)

    def page(self, job_id: str, trajectory_id: str | None = None, *, most: int = 20) -> Page[Note]:
        """Return up to ``most`` notes, newest first; of one trajectory only, if given."""
        from services.contracts.notes import Note

        query = {} if trajectory_id is None else {"trajectory": trajectory_id}
        return pages.page(self._transport, _path(job_id), Page[Note], query, most)

    def delete(self, job_id: str, note_id: str) -> Deleted:
        """Delete a note."""
        return self._transport.delete(f"{_path(job_id)}/{quote(note_id, safe='')}", Deleted)


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}/notes"
