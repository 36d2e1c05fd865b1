"""Multipart uploads: large files, sent in parts, in parallel and with retries."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints

from services.contracts.base import Request, Resource
from services.contracts.data.files import ExpiresAfter, File, FilePurpose

MAX_PARTS = 10_000
MAX_PART_BYTES = 64 << 20


def _uploaded(purpose: FilePurpose) -> FilePurpose:
    if purpose not in FilePurpose.uploads():
        raise ValueError(f"is not one of {', '.join(FilePurpose.uploads())}")
    return purpose


class CreateUpload(Request):
    """The body of POST /v1/uploads."""

    bytes: StrictInt = Field(ge=1, description="Size of the whole file.")
    filename: str = Field(min_length=1, max_length=255)
    mime_type: str = Field(
        max_length=255, description="MIME type, which is not used: the purpose says what a file is."
    )
    purpose: Annotated[FilePurpose, AfterValidator(_uploaded)] = Field(
        json_schema_extra={"enum": [purpose.value for purpose in FilePurpose.uploads()]}
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

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: FilePurpose
    status: Literal["pending", "completed", "cancelled", "expired"]
    file: File | None = None


class UploadPart(Resource):
    """A stored part."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str
