"""The job directory of a training child: its data, output and checkpoints.

A checkpoint is complete once it contains our marker, which is written last: a checkpoint that a
kill interrupted has none.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from services.core.process.reporter import Reporter, pause_requested


class Paused(Exception):
    """Exits a child after a pause request, once it has saved what resuming needs."""


@dataclass(frozen=True)
class Context:
    """Where a child works and how it reports; ``enter`` is called at the start of each phase.

    With several devices each has a process; rank 0 ``leads``: it prepares the data and reports.
    """

    job_dir: Path
    reporter: Reporter
    enter: Callable[[str], None]

    @property
    def output_dir(self) -> Path:
        """Checkpoints, and finally the model."""
        return self.job_dir / "output"

    @property
    def data_dir(self) -> Path:
        """Prepared data and the cache of the datasets library; removed after success."""
        return self.job_dir / "data"

    @property
    def leads(self) -> bool:
        """Whether this process prepares the data and reports."""
        return leads()

    @property
    def processes(self) -> int:
        """World size as set by torch's launcher."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def pause_requested(self) -> bool:
        """Whether the worker asked for a pause."""
        return pause_requested(self.job_dir)

    def relative(self, path: Path) -> str:
        """A path relative to the job directory, as reports show it."""
        return path.relative_to(self.job_dir).as_posix()


def leads() -> bool:
    """Whether this process has rank 0."""
    return os.environ.get("RANK", "0") == "0"


_MARKER = "complete.json"
_PREFIX = "checkpoint-"
_OPTIMIZER = ("optimizer*", "global_step*")
"""The second is DeepSpeed's."""
_TRAINING_STATE = (
    *_OPTIMIZER,
    *("scheduler.pt", "scaler.pt", "rng_state*.pth"),
    *("latest", "zero_to_*.py"),  # DeepSpeed's
    "pytorch_model_fsdp*",
)


def checkpoint_dir(output_dir: Path, step: int) -> Path:
    """The folder of a step's checkpoint."""
    return output_dir / f"{_PREFIX}{step}"


class Timing(NamedTuple):
    """How long a training took so far, over all attempts, and how many of its steps that covers:
    those of earlier versions of Temper are not in it."""

    seconds: float = 0.0
    steps: int = 0


def timing_of(checkpoint: Path) -> Timing:
    """What a complete checkpoint says of the time until then."""
    marker = json.loads((checkpoint / _MARKER).read_bytes())
    return Timing(marker.get("train_seconds", 0.0), marker.get("timed_steps", 0))


def mark_complete(checkpoint: Path, step: int, timing: Timing) -> None:
    """Mark a checkpoint complete, durably."""
    partial = checkpoint / f"{_MARKER}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        marker = {"step": step, "train_seconds": timing.seconds, "timed_steps": timing.steps}
        json.dump(marker, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(checkpoint / _MARKER)


def keep_only_models(output_dir: Path, *whole: Path) -> None:
    """Reduce all checkpoints but ``whole`` to their models, a third of their size.

    Training never resumes from those before the newest one, which must be among ``whole``.
    """
    for _, path in _checkpoints(output_dir):
        if path not in whole:
            for pattern in _TRAINING_STATE:
                for each in path.glob(pattern):
                    shutil.rmtree(each) if each.is_dir() else each.unlink()


def remove_oldest(output_dir: Path, limit: int, *needed: Path) -> None:
    """Delete the complete checkpoints with the fewest steps, until ``limit`` are left or those that
    are ``needed``."""
    complete = complete_checkpoints(output_dir)
    spare = [path for path in complete.values() if path not in needed]
    for path in spare[: max(len(complete) - limit, 0)]:
        _remove(path)


def complete_checkpoints(output_dir: Path) -> dict[int, Path]:
    """The complete checkpoints by their steps, in order."""
    return dict(sorted(found for found in _checkpoints(output_dir) if _is_complete(found[1])))


def newest_resumable(output_dir: Path) -> Path | None:
    """The complete checkpoint with the most steps that has what resuming needs."""
    found = [path for path in complete_checkpoints(output_dir).values() if _is_resumable(path)]
    return found[-1] if found else None


def remove_others(output_dir: Path, resumed: Path) -> None:
    """Delete checkpoints that were interrupted, and those behind the one that is resumed from,
    whose steps are trained and saved again."""
    step = int(resumed.name.removeprefix(_PREFIX))
    for other, path in list(_checkpoints(output_dir)):
        if other > step or not _is_complete(path):
            _remove(path)


def _remove(checkpoint: Path) -> None:
    """Delete a checkpoint; what a kill leaves of it, or a file system that keeps files which a
    serving has open (NFS), is not a checkpoint."""
    (checkpoint / _MARKER).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _checkpoints(output_dir: Path) -> Iterator[tuple[int, Path]]:
    for path in output_dir.glob(f"{_PREFIX}*"):
        step = path.name.removeprefix(_PREFIX)
        if step.isdigit() and path.is_dir():
            yield int(step), path


def _is_resumable(checkpoint: Path) -> bool:
    """Whether it still has the state of the optimizer, which `keep_only_models` deletes first."""
    return any(next(checkpoint.glob(pattern), None) for pattern in _OPTIMIZER)


def _is_complete(checkpoint: Path) -> bool:
    return (checkpoint / _MARKER).is_file()
