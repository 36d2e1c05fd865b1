"""A job that is ready to be submitted from this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from services.contracts.evaluations import CreateEvaluation
from services.contracts.files import FilePurpose
from services.contracts.fine_tuning import CreateFineTuningJob
from services.contracts.indexes import CreateIndexingJob
from services.contracts.rollouts import CreateRollout

JobRequest = CreateFineTuningJob | CreateEvaluation | CreateRollout | CreateIndexingJob


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine, and the field of the request that its id belongs in."""

    field: str
    path: Path
    purpose: FilePurpose


@dataclass(frozen=True)
class Submission:
    """A request, the files to upload for it first, and what its author should know.

    ``model_may_be_of_hub`` says that an unknown model is meant as a repository of the hub.
    """

    request: JobRequest
    files: tuple[LocalFile, ...] = ()
    notes: tuple[str, ...] = ()
    model_may_be_of_hub: bool = False

    def labelled(self, labels: Mapping[str, str]) -> Self:
        """Return the submission with more metadata."""
        metadata = {**(self.request.metadata or {}), **labels}
        request = self.request.model_copy(update={"metadata": metadata or None})
        return replace(self, request=request)
