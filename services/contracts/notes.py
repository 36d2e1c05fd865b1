"""Notes: what people write about a job or about one of its trajectories."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Request, Resource

MAX_NOTE_CHARACTERS = 4000
MAX_NOTES = 1000
"""Per job, including those of its trajectories."""


class CreateNote(Request):
    """The body of POST /v1/jobs/{id}/notes."""

    text: str = Field(
        min_length=1, max_length=MAX_NOTE_CHARACTERS, pattern=r"\S", description="Text of the note."
    )
    trajectory_id: str | None = Field(
        default=None,
        max_length=200,
        description="Trajectory that the note is about; null: the job as a whole.",
    )


class Note(Resource):
    """A note."""

    id: str = Field(description="Id of the note.")
    object: Literal["job.note"] = "job.note"
    job_id: str = Field(description="Id of the job that the note is about.")
    trajectory_id: str | None = Field(
        description="Id of the trajectory that the note is about; null: the job as a whole."
    )
    text: str = Field(description="Text of the note.")
    created_at: int = Field(description="Time at which the note was written, in Unix seconds.")
