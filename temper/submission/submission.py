"""A job that is ready to be submitted from this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from services.contracts.data.files import FilePurpose
from services.contracts.jobs import JobRequest
from temper.client.errors import ClientError


def user_path(text: str) -> Path:
    """Return a path with ``~`` expanded, or unchanged if there is no such user."""
    path = Path(text)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


class SubmissionError(ClientError):
    """The file does not describe a job that can be submitted; nothing was submitted."""

    code = "invalid_job_file"


@dataclass(frozen=True)
class LocalFile:
    """A local file, and the field of the request that takes its id."""

    field: str
    path: Path
    purpose: FilePurpose


@dataclass(frozen=True)
class Submission:
    """A request, the files to upload first, and notes for its author.

    ``hub_model`` is taken for a repository of the hub unless a model of this name is registered.
    """

    request: JobRequest
    files: tuple[LocalFile, ...] = ()
    notes: tuple[str, ...] = ()
    hub_model: str | None = None

    def labeled(self, labels: Mapping[str, str]) -> Self:
        """Return the submission with additional metadata."""
        metadata = {**(self.request.metadata or {}), **labels}
        request = self.request.model_copy(update={"metadata": metadata or None})
        return replace(self, request=request)
