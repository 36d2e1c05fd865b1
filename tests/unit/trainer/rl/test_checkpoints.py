"""The content of checkpoints, and which ones are complete."""

import asyncio
import json
from pathlib import Path

from services.core.process.reporter import METRICS
from services.trainer.rl.checkpoints import (
    LEARNER,
    MODEL,
    Checkpoints,
    PendingGroup,
    Snapshot,
    TrainingPosition,
    strip_checkpoints,
    truncate_metrics,
)


async def save(folder: Path) -> None:
    for part in (MODEL, "trainer"):
        (folder / part).mkdir(parents=True)


def write(checkpoints: Checkpoints, step: int) -> Path:
    position = TrainingPosition(step=step, groups=(PendingGroup(number=4, started=1),))
    return asyncio.run(checkpoints.write(step, save, lambda: Snapshot(position, [])))


def test_newest_complete_checkpoint_is_used(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5)
    for step in (2, 10):
        write(checkpoints, step)
    (tmp_path / "checkpoint-11" / LEARNER).mkdir(parents=True)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.position().step == 10
    assert newest.position().groups == (PendingGroup(number=4, started=1),)
    assert not (tmp_path / "checkpoint-11").exists()


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        assert write(checkpoints, step).is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-3"]


def test_finished_training_keeps_only_models(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    model = write(checkpoints, 1)
    strip_checkpoints(tmp_path)
    strip_checkpoints(tmp_path)
    assert model.is_dir()
    assert [path.name for path in model.parent.iterdir()] == [MODEL]


def test_without_a_checkpoint_training_starts_over(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none", keep=1).newest() is None


def test_metrics_beyond_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / METRICS
    file.write_text("".join(json.dumps({"step": step}) + "\n" for step in (1, 2, 3)))
    truncate_metrics(tmp_path, 2)
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()] == [1, 2]
