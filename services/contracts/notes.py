"""Notes: what people write about a job or about one of its trajectories."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Request, Resource

MAX_NOTE_CHARACTERS = 4000
MAX_NOTES = 1000
"""Per job, including those of its trajectories."""


class CreateNote(Request):
    """The body of POST /v1/jobs/{id}/notes."""

    text: str = Field(min_length=1, max_length=MAX_NOTE_CHARACTERS, pattern=r"\S")
    trajectory_id: str | None = Field(
        default=None,
        max_length=200,
        description="Trajectory that the note is about; null: the job as a whole.",
    )


class Note(Resource):
    """A note."""

    id: str
    object: Literal["job.note"] = "job.note"
    job_id: str
    trajectory_id: str | None
    text: str
    created_at: int
