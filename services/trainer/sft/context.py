"""The job directory of a training child, and its place among the processes that train together."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.core.process.reporter import Reporter


@dataclass(frozen=True)
class Context:
    """Where a child works and how it reports; ``enter`` is called with each phase of the work.

    With several devices every one has a process; the one that ``leads`` prepares and reports.
    """

    job_dir: Path
    reporter: Reporter
    enter: Callable[[str], None]

    @property
    def output_dir(self) -> Path:
        """Checkpoints, and in the end the model."""
        return self.job_dir / "output"

    @property
    def data_dir(self) -> Path:
        """The prepared data, and the cache of the datasets library; gone after success."""
        return self.job_dir / "data"

    @property
    def leads(self) -> bool:
        """Whether this is the process that prepares and reports; a single one is."""
        return leads()

    @property
    def processes(self) -> int:
        """How many processes train together, as torch's launcher counts them."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    def relative(self, path: Path) -> str:
        """A path as reports name it: relative to the job directory."""
        return path.relative_to(self.job_dir).as_posix()


def leads() -> bool:
    """Whether this process has rank 0."""
    return os.environ.get("RANK", "0") == "0"
