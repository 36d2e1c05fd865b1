"""Uploaded files, and multipart uploads: large files, in parallel parts and with retries."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints

from services.contracts.base import Request, Resource

MAX_EXAMPLE_ROWS = 20
"""Most rows of a file that are shown as training examples at once."""


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
    seconds: StrictInt = Field(
        ge=3600,
        le=2_592_000,
        description="Seconds until the file is deleted: one hour to thirty days.",
    )


class File(Resource):
    """A stored file. ``sha256`` is the hex checksum of its content."""

    id: str = Field(description="Id of the file.")
    object: Literal["file"] = "file"
    bytes: int = Field(description="Size of the file in bytes.")
    created_at: int = Field(
        description="Time of the upload, or at which a job last wrote the file, in Unix seconds."
    )
    filename: str = Field(description="Name of the file.")
    purpose: FilePurpose = Field(
        description="Purpose of the file, which decides how its content is checked."
    )
    status: Literal["uploaded", "processed", "error"] = Field(
        default="processed", description="Status of the file in OpenAI's format."
    )
    status_details: str | None = Field(
        default=None, description="Details of the status in OpenAI's format; null: none."
    )
    expires_at: int | None = Field(
        default=None, description="Time at which the file is deleted, in Unix seconds; null: never."
    )
    sha256: str = Field(description="Hex SHA-256 of the content.")


class UploadedContent(Resource):
    """The identity of an upload, for idempotency."""

    filename: str
    purpose: FilePurpose
    sha256: str
    expires_after: ExpiresAfter | None = Field(
        default=None, description="Time after which the file is deleted; null: never."
    )


MAX_PARTS = 10_000
MAX_PART_BYTES = 64 << 20


def _uploaded(purpose: FilePurpose) -> FilePurpose:
    if purpose not in FilePurpose.uploads():
        raise ValueError(f"is not one of {', '.join(FilePurpose.uploads())}")
    return purpose


class CreateUpload(Request):
    """The body of POST /v1/uploads."""

    bytes: StrictInt = Field(ge=1, description="Size of the whole file.")
    filename: str = Field(min_length=1, max_length=255, description="Name of the file.")
    mime_type: str = Field(
        max_length=255, description="MIME type, which is not used: the purpose says what a file is."
    )
    purpose: Annotated[FilePurpose, AfterValidator(_uploaded)] = Field(
        json_schema_extra={"enum": [purpose.value for purpose in FilePurpose.uploads()]},
        description="Purpose of the file, which decides how its content is checked.",
    )
    expires_after: ExpiresAfter | None = Field(
        default=None, description="Expiry of the file, counted from its completion."
    )


class CompleteUpload(Request):
    """The body of POST /v1/uploads/{id}/complete."""

    part_ids: list[Annotated[str, StringConstraints(max_length=64)]] = Field(
        min_length=1,
        max_length=MAX_PARTS,
        description="Ids of the parts, in the order of the file.",
    )
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{32}$")] | None = Field(
        default=None, description="Hex checksum of the whole file."
    )


class PartialUpload(Resource):
    """A multipart upload; ``file`` is present once it is completed, until it is deleted."""

    id: str = Field(description="Id of the upload.")
    object: Literal["upload"] = "upload"
    bytes: int = Field(description="Size of the whole file in bytes.")
    created_at: int = Field(description="Time at which the upload was created, in Unix seconds.")
    expires_at: int = Field(
        description="Time until which the upload accepts parts, in Unix seconds."
    )
    filename: str = Field(description="Name of the file.")
    purpose: FilePurpose = Field(description="Purpose of the file.")
    status: Literal["pending", "completed", "cancelled", "expired"] = Field(
        description="Status of the upload."
    )
    file: File | None = Field(
        default=None,
        description="Uploaded file; null until the upload is completed, and once the file is "
        "deleted.",
    )


class UploadPart(Resource):
    """A stored part."""

    id: str = Field(description="Id of the part.")
    object: Literal["upload.part"] = "upload.part"
    created_at: int = Field(description="Time at which the part was stored, in Unix seconds.")
    upload_id: str = Field(description="Id of the upload that the part belongs to.")
