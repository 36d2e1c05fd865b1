"""Where artifacts lie on disk. Every name below the root is chosen by Temper, never by a client."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Artifacts:
    """Paths of stored files and of jobs' folders below one root."""

    root: Path

    def file(self, file_id: str) -> Path:
        """The content of an uploaded file."""
        return self.root / "files" / file_id

    def job(self, job_id: str) -> Path:
        """The folder of a job: its specification, reports, log, checkpoints and results."""
        return self.root / "jobs" / job_id

    def uploads(self) -> Path:
        """Where uploads are written before they are complete; same file system as the files."""
        return self.root / "uploads"
