"""Exporting a model to a folder, a store or a hub."""

from typing import Literal

from pydantic import Field, StrictInt

from services.contracts.base import Metadata, Request
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.destinations import Destination


class ExportModel(Request):
    """The body of POST /v1/models/{id}/export. An export runs on the CPU."""

    destination: Destination = Field(
        description="A folder, hf://owner/name, or another URL of fsspec's, that the operator "
        "allows."
    )
    priority: StrictInt = Field(default=0, ge=-100, le=100, description="Higher runs first.")
    metadata: Metadata | None = None


class CreateExport(JobRequest):
    """The request of an export job: the model, and the destination of its files."""

    model: str = Field(description="The model whose files are exported.")
    destination: Destination = Field(
        description="A folder, hf://owner/name, or another URL of fsspec's, that the operator "
        "allows."
    )


class Export(JobState):
    """A job that exports a model."""

    object: Literal["model.export"] = "model.export"
    model: str
    destination: str
    files: int | None = None
    bytes: int | None = None
    commit: str | None = Field(default=None, description="Commit of the hub repository.")
