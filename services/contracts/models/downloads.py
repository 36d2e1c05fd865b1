"""Downloading a registered hub model before a job needs it."""

from typing import Literal

from pydantic import Field, StrictInt

from services.contracts.base import Metadata, Request
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.registered import HubName


class DownloadModel(Request):
    """The body of POST /v1/models/{id}/download. A download needs neither GPU nor CPU slot."""

    priority: StrictInt = Field(default=0, ge=-100, le=100, description="Higher runs first.")
    metadata: Metadata | None = None


class CreateDownload(JobRequest):
    """The request of a download job: the registered model."""

    model: str = Field(description="The registered hub model to download.")


class Download(JobState):
    """A job that downloads a hub model to the cache of its worker's host.

    ``download`` counts the bytes while it runs; files that are complete are kept when it is
    cancelled, paused or fails, and are not fetched again.
    """

    object: Literal["model.download"] = "model.download"
    model: str
    hub_id: HubName | None = Field(default=None, description="Repository of the hub.")
    commit: str | None = Field(default=None, description="Commit that was downloaded.")
    bytes: int | None = Field(default=None, description="Size of the files once all are here.")
