"""Uploaded files."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, StrictInt

from services.contracts.base import Request, Resource


class FilePurpose(StrEnum):
    """The purpose of a file decides how its content is checked, never where it is stored."""

    FINE_TUNE = "fine-tune"
    EVALS = "evals"
    BATCH = "batch"
    USER_DATA = "user_data"
    # Written by jobs, never uploaded.
    FINE_TUNE_RESULTS = "fine-tune-results"
    BATCH_OUTPUT = "batch_output"

    @classmethod
    def uploads(cls) -> "list[FilePurpose]":
        """The purposes that an upload may have."""
        written = {cls.FINE_TUNE_RESULTS, cls.BATCH_OUTPUT}
        return [purpose for purpose in cls if purpose not in written]


class ExpiresAfter(Request):
    """When a file is deleted: a time after it was created."""

    anchor: Literal["created_at"] = Field(description="Time that the seconds are counted from.")
    seconds: StrictInt = Field(ge=3600, le=2_592_000, description="An hour to thirty days.")


class File(Resource):
    """A stored file. ``sha256`` is the hex checksum of its content."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: FilePurpose
    status: Literal["uploaded", "processed", "error"] = "processed"
    status_details: str | None = None
    expires_at: int | None = None
    sha256: str


class UploadedContent(Resource):
    """The identity of an upload, for idempotency."""

    filename: str
    purpose: FilePurpose
    sha256: str
    expires_after: ExpiresAfter | None = None
