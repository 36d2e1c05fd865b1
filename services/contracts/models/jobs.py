"""Jobs on a registered model: downloads, merges, and exports with their destinations."""

import re
from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints

from services.contracts.base import Metadata, Request
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.registered import HubName, Suffix


class DownloadModel(Request):
    """The body of POST /v1/models/{id}/download. A download needs neither GPU nor CPU slot."""

    priority: StrictInt = Field(
        default=0, ge=-100, le=100, description="Priority among queued jobs; higher ones run first."
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the job: up to 16 pairs of strings, by which jobs can be listed.",
    )


class CreateDownload(JobRequest):
    """The request of a download job: the registered model."""

    model: str = Field(description="The registered hub model to download.")


class Download(JobState):
    """A job that downloads a hub model to the cache of its worker's host.

    ``download`` counts the bytes while it runs; files that are complete are kept when it is
    cancelled, paused or fails, and are not fetched again.
    """

    object: Literal["model.download"] = "model.download"
    model: str = Field(description="Registered hub model that is downloaded.")
    hub_id: HubName | None = Field(
        default=None,
        description="Repository of the model on the hub; null until the job has succeeded.",
    )
    commit: str | None = Field(
        default=None, description="Commit that was downloaded; null until the job has succeeded."
    )
    bytes: int | None = Field(
        default=None, description="Size of the downloaded files in bytes; null until all are here."
    )


class MergeModel(Request):
    """The body of POST /v1/models/{id}/merge. A merge runs on the CPU."""

    suffix: Suffix = Field(default="merged", description="Suffix in the merged model's name.")
    priority: StrictInt = Field(
        default=0, ge=-100, le=100, description="Priority among queued jobs; higher ones run first."
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the job: up to 16 pairs of strings, by which jobs can be listed.",
    )


class CreateMerge(JobRequest):
    """The request of a merge job: the model, and the suffix of the result."""

    model: str = Field(
        description="Adapter, checkpoint of a reward model, or GGUF file to merge or convert."
    )
    suffix: Suffix = Field(default="merged", description="Suffix in the merged model's name.")


class Merge(JobState):
    """A job that merges a model."""

    object: Literal["model.merge"] = "model.merge"
    model: str = Field(
        description="Adapter, checkpoint of a reward model, or GGUF file that is merged or "
        "converted."
    )
    merged_model: str | None = Field(
        default=None, description="Name of the merged model; null until it is registered."
    )


HUB = "hf"
FOLDER = "file"

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<place>.+)", re.DOTALL)
_REPOSITORY_SLASHES = 3
_PART = re.compile(r"[A-Za-z0-9._=+@-]+")


def _normalized(text: str) -> str:
    """The URL in canonical form for comparison; an absolute path is a URL of ``file``."""
    url = f"{FOLDER}://{text}" if text.startswith("/") else text
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("must be an absolute path, or a URL such as hf://owner/name")
    scheme, place = found["scheme"], found["place"].rstrip("/")
    if scheme == FOLDER and not place.startswith("/"):
        raise ValueError("must name an absolute path: file:///folder")
    parts = place.removeprefix("/").split("/") if scheme == FOLDER else place.split("/")
    if not all(_PART.fullmatch(part) and part.strip(".") for part in parts):
        raise ValueError(
            "may consist of names of letters, digits and . _ = + @ - only, separated by '/'"
        )
    return f"{scheme}://{place}"


def _one_place(text: str) -> str:
    url = _normalized(text)
    if scheme_of(url) == HUB and url.count("/") != _REPOSITORY_SLASHES:
        raise ValueError("must name one repository: hf://owner/name")
    return url


_Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


AllowedPlace = Annotated[_Text, AfterValidator(_normalized)]
"""An allowed prefix: ``/folder``, ``hf://owner``, ``s3://bucket``, and everything below it."""

Destination = Annotated[_Text, AfterValidator(_one_place)]
"""``/folder``, ``hf://owner/name``, or another URL of fsspec's such as ``s3://bucket/name``.

It holds no credentials, no options, and no way up.
"""


def scheme_of(destination: str) -> str:
    """The scheme of a URL."""
    return destination.partition("://")[0]


def is_allowed(destination: str, allowed: Collection[str]) -> bool:
    """Whether a destination is an allowed URL or is below one."""
    return any(destination == each or destination.startswith(f"{each}/") for each in allowed)


class ExportModel(Request):
    """The body of POST /v1/models/{id}/export. An export runs on the CPU."""

    destination: Destination = Field(
        description="Destination that the operator allows: a folder, hf://owner/name, or another "
        "URL of fsspec."
    )
    priority: StrictInt = Field(
        default=0, ge=-100, le=100, description="Priority among queued jobs; higher ones run first."
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the job: up to 16 pairs of strings, by which jobs can be listed.",
    )


class CreateExport(JobRequest):
    """The request of an export job: the model, and the destination of its files."""

    model: str = Field(description="The model whose files are exported.")
    destination: Destination = Field(
        description="Destination that the operator allows: a folder, hf://owner/name, or another "
        "URL of fsspec."
    )


class Export(JobState):
    """A job that exports a model."""

    object: Literal["model.export"] = "model.export"
    model: str = Field(description="Model whose files are exported.")
    destination: str = Field(
        description="Destination of the files: a folder, hf://owner/name, or another URL of fsspec."
    )
    files: int | None = Field(
        default=None, description="Number of exported files; null until the job has a result."
    )
    bytes: int | None = Field(
        default=None,
        description="Size of the exported files in bytes; null until the job has succeeded.",
    )
    commit: str | None = Field(
        default=None,
        description="Commit of the hub repository; null until the job has succeeded, and for other "
        "destinations.",
    )
