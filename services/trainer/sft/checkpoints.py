"""Which checkpoints of a job can be resumed from.

A checkpoint is complete when our marker lies in it. The marker is written after everything else,
so a checkpoint that a kill interrupted has none.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_MARKER = "complete.json"
_PREFIX = "checkpoint-"
_TRAINING_STATE = ("optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")


def checkpoint_dir(output_dir: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return output_dir / f"{_PREFIX}{step}"


def mark_complete(checkpoint: Path, step: int) -> None:
    """Declare a checkpoint complete, durably."""
    partial = checkpoint / f"{_MARKER}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump({"step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(checkpoint / _MARKER)


def keep_only_models(output_dir: Path, newest: Path) -> None:
    """Reduce the checkpoints before ``newest`` to their models, a third of their size.

    Training never goes back to them once a newer one is complete.
    """
    for _, path in _checkpoints(output_dir):
        if path != newest:
            for pattern in _TRAINING_STATE:
                for file in path.glob(pattern):
                    file.unlink()


def newest_complete(output_dir: Path) -> Path | None:
    """The complete checkpoint with the most steps."""
    complete = [found for found in _checkpoints(output_dir) if _is_complete(found[1])]
    return max(complete)[1] if complete else None


def remove_incomplete(output_dir: Path) -> None:
    """Delete checkpoints that were interrupted."""
    for _, path in _checkpoints(output_dir):
        if not _is_complete(path):
            shutil.rmtree(path)


def _checkpoints(output_dir: Path) -> Iterator[tuple[int, Path]]:
    for path in output_dir.glob(f"{_PREFIX}*"):
        step = path.name.removeprefix(_PREFIX)
        if step.isdigit() and path.is_dir():
            yield int(step), path


def _is_complete(checkpoint: Path) -> bool:
    return (checkpoint / _MARKER).is_file()
