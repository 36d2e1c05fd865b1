"""Where stored things are: artifacts on disk, and the sources of data and weights.

Every name below the root is chosen by Temper, never by a client. Runtimes import this module too:
it needs nothing but pydantic.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


@dataclass(frozen=True)
class Artifacts:
    """Paths of stored files and of job folders below one root."""

    root: Path

    def file(self, file_id: str) -> Path:
        """The content of an uploaded file."""
        return self.root / "files" / file_id

    def job(self, job_id: str) -> Path:
        """The folder of a job: its specification, reports, log, checkpoints and results."""
        return self.root / "jobs" / job_id

    def uploads(self) -> Path:
        """Incomplete uploads; on the same file system as the files."""
        return self.root / "uploads"


class SourceFile(BaseModel):
    """An uploaded file: the path of its content, and the name that the client gave it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path
    filename: str = Field(min_length=1)


class ModelSource(BaseModel):
    """Model weights: a folder of this host, or a hub repository at a revision.

    ``tokenizer`` is a folder whose tokenizer replaces the one beside the weights.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    tokenizer: Path | None = None

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        if (self.path is None) == (self.hub_id is None):
            raise ValueError("give exactly one of path and hub_id")
        return self

    @property
    def location(self) -> str:
        """The folder's path or the repository's name."""
        return str(self.path or self.hub_id)


class LoraAdapter(NamedTuple):
    """An adapter over a served model: the name it answers to, and its folder."""

    name: str
    path: Path
