"""Checkpoints of an online training: the learner's state and the coordinator's position.

A checkpoint is complete once its ``state.json`` exists, which is written last. Resuming from one,
training sees every prompt exactly as it would have without the interruption: groups that were
finished but not yet trained on are part of the checkpoint, and groups in flight are completed.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import METRICS
from services.trainer.rl.curriculum import CurriculumState

STATE = "state.json"
SAMPLES = "samples.jsonl"
LEARNER = "learner"
MODEL = "model"
"""The subfolder of the learner's part that is usable as a model."""
_PREFIX = "checkpoint-"
_PARTIAL = ".partial"
"""Added to the folder's name until the checkpoint is in place; complete once it has a state."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PendingGroup(_Record):
    """A group that was drawn but not trained on: its draw number and the policy version it began
    under."""

    number: int
    started: int


class TrainingPosition(_Record):
    """Progress of a training. ``step`` counts steps of the loop, ``version`` policy updates,
    ``prompts_drawn`` draws from the prompts, ``trajectories`` the records written so far."""

    step: int = 0
    version: int = 0
    prompts_drawn: int = 0
    prompts_skipped: int = 0
    trajectories: int = 0
    trained_tokens: int = 0
    train_seconds: float = 0.0
    groups: tuple[PendingGroup, ...] = ()
    curriculum: CurriculumState | None = None


class PendingSample(_Record):
    """A finished sample of a pending group."""

    group: int
    trajectory: Trajectory


@dataclass(frozen=True)
class Snapshot:
    """The coordinator's state at one moment."""

    position: TrainingPosition
    samples: Sequence[PendingSample]


@dataclass(frozen=True)
class TrainingCheckpoint:
    """A complete checkpoint."""

    folder: Path

    @property
    def learner(self) -> Path:
        """The learner's part."""
        return self.folder / LEARNER

    def position(self) -> TrainingPosition:
        """Progress at the time of the checkpoint."""
        return TrainingPosition.model_validate_json((self.folder / STATE).read_bytes())

    def samples(self) -> Iterator[PendingSample]:
        """The finished samples of pending groups."""
        with (self.folder / SAMPLES).open("rb") as file:
            for line in file:
                yield PendingSample.model_validate_json(line)


class Checkpoints:
    """The checkpoints of a job in a folder; the newest ``keep`` are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def newest(self) -> TrainingCheckpoint | None:
        """The complete checkpoint with the most steps; incomplete ones are removed."""
        for path in self._folder.glob(f"{_PREFIX}*"):
            if not (path / STATE).is_file():
                _remove(path)
        for path in self._folder.glob(f"{_PREFIX}*{_PARTIAL}"):
            _put_in_place(path)
        complete = _complete(self._folder)
        return TrainingCheckpoint(complete[-1]) if complete else None

    def steps(self) -> list[int]:
        """The steps of the complete checkpoints, in order."""
        return [int(path.name.removeprefix(_PREFIX)) for path in _complete(self._folder)]

    async def write(
        self, step: int, save: Callable[[Path], Awaitable[None]], snapshot: Callable[[], Snapshot]
    ) -> Path:
        """Write a checkpoint and return the folder of its model.

        ``save`` writes the learner's part, including the model; ``snapshot`` is taken atomically
        after that. An earlier checkpoint of the step stays until this one is complete.
        """
        folder = self._folder / f"{_PREFIX}{step}"
        partial = folder.with_name(folder.name + _PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        await save(partial / LEARNER)
        await asyncio.to_thread(_write, partial, snapshot())
        await asyncio.to_thread(_put_in_place, partial)
        for old in _complete(self._folder)[: -self._keep]:
            await asyncio.to_thread(_remove, old)
        return folder / LEARNER / MODEL


def _remove(checkpoint: Path) -> None:
    """Delete a checkpoint; what a kill leaves of it, or a file system that keeps files which a
    serving has open (NFS), is not complete."""
    (checkpoint / STATE).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _put_in_place(partial: Path) -> None:
    """Replace a step's checkpoint with a complete one; repeated after a kill."""
    folder = partial.with_name(partial.name.removesuffix(_PARTIAL))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def strip_checkpoints(folder: Path) -> None:
    """Reduce the checkpoints of a finished training to their models; resumable if interrupted."""
    for checkpoint in _complete(folder):
        for part in (checkpoint / LEARNER).iterdir():
            if part.name != MODEL:
                shutil.rmtree(part)
        (checkpoint / SAMPLES).unlink(missing_ok=True)


def _complete(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    found = {
        int(number): path
        for path in folder.glob(f"{_PREFIX}*")
        if (number := path.name.removeprefix(_PREFIX)).isdigit() and (path / STATE).is_file()
    }
    return [found[step] for step in sorted(found)]


def truncate_metrics(job_dir: Path, step: int) -> None:
    """Drop the metrics of steps that will be repeated."""
    path = job_dir / METRICS
    if step == 0:
        path.unlink(missing_ok=True)
    if not path.exists():
        return
    partial = path.with_suffix(".partial")
    with path.open("rb") as old, partial.open("wb") as new:
        for line in old:
            if _step_of(line) <= step:
                new.write(line)
    partial.replace(path)


def _step_of(line: bytes) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return 0  # a line torn by a kill: readers skip it


def _write(folder: Path, snapshot: Snapshot) -> None:
    with (folder / SAMPLES).open("wb") as file:
        for sample in snapshot.samples:
            file.write(sample.model_dump_json().encode() + b"\n")
        _sync(file)
    partial = folder / f"{STATE}.partial"
    with partial.open("wb") as file:
        file.write(snapshot.position.model_dump_json().encode())
        _sync(file)
    partial.replace(folder / STATE)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
