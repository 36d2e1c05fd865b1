import errno
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.offline.job_dir import (
    Timing,
    checkpoint_dir,
    complete_checkpoints,
    keep_only_models,
    mark_complete,
    newest_resumable,
    remove_oldest,
    remove_others,
    timing_of,
)


def save(output: Path, step: int, *, complete: bool = True) -> Path:
    path = checkpoint_dir(output, step)
    path.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_0.pth"):
        (path / name).write_bytes(b"content")
    if complete:
        mark_complete(path, step, Timing(1.0, step))
    return path


def test_the_newest_checkpoint_is_the_complete_one_with_the_most_steps(tmp_path: Path) -> None:
    save(tmp_path, 9)
    newest = save(tmp_path, 10)
    save(tmp_path, 11, complete=False)

    assert newest_resumable(tmp_path) == newest


def test_a_checkpoint_without_its_optimizer_is_not_resumed_from(tmp_path: Path) -> None:
    sharded, stripped = save(tmp_path, 2), save(tmp_path, 4)
    (sharded / "optimizer.pt").unlink()
    (sharded / "global_step2").mkdir()  # DeepSpeed's
    keep_only_models(tmp_path, sharded)
    save(tmp_path, 6, complete=False)

    assert newest_resumable(tmp_path) == sharded
    shutil.rmtree(sharded)
    assert newest_resumable(tmp_path) is None
    assert list(complete_checkpoints(tmp_path).values()) == [stripped]


def test_the_time_of_a_checkpoint_of_an_earlier_version_is_unknown(tmp_path: Path) -> None:
    path = save(tmp_path, 3)
    assert timing_of(path) == Timing(1.0, 3)

    (path / "complete.json").write_text('{"step": 3}')

    assert timing_of(path) == Timing(0.0, 0)


def test_checkpoints_that_nothing_loads_again_keep_only_model_files(tmp_path: Path) -> None:
    best, older, newest = (save(tmp_path, step) for step in (1, 2, 3))

    keep_only_models(tmp_path, newest, best)

    assert {path.name for path in older.iterdir()} == {"model.safetensors", "complete.json"}
    assert (newest / "optimizer.pt").exists()
    assert (best / "optimizer.pt").exists()


@given(steps=st.sets(st.integers(1, 200), min_size=1, max_size=6), limit=st.integers(1, 4))
def test_the_checkpoints_with_the_most_steps_are_kept_and_those_that_are_needed(
    steps: set[int], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    output = tmp_path_factory.mktemp("output")
    for step in sorted(steps, reverse=True):  # their times have the opposite order
        save(output, step)
    best, newest = checkpoint_dir(output, min(steps)), checkpoint_dir(output, max(steps))

    remove_oldest(output, limit, newest, best)

    left = list(complete_checkpoints(output))
    assert {min(steps), max(steps)} <= set(left)
    assert len(left) == min(len(steps), max(limit, len({best, newest})))
    others = [step for step in left if step != min(steps)]
    assert others == sorted(steps)[len(steps) - len(others) :]


def test_a_file_that_cannot_be_deleted_yet_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = save(tmp_path, 2), save(tmp_path, 4)
    remove = os.unlink

    def unlink(path: str, **where: int) -> None:
        if path == "model.safetensors":  # as NFS does with what a serving has open
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        remove(path, **where)

    monkeypatch.setattr(os, "unlink", unlink)
    remove_oldest(tmp_path, 1, new)
    remove_others(tmp_path, new)

    assert old.exists()
    assert list(complete_checkpoints(tmp_path).values()) == [new]


def test_a_run_without_checkpoints_has_no_newest_checkpoint(tmp_path: Path) -> None:
    assert newest_resumable(tmp_path / "missing") is None
    save(tmp_path, 1, complete=False)
    assert newest_resumable(tmp_path) is None


def test_interrupted_and_later_checkpoints_are_removed_before_resuming(tmp_path: Path) -> None:
    kept, resumed = save(tmp_path, 1), save(tmp_path, 2)
    gone = save(tmp_path, 3, complete=False), save(tmp_path, 4)
    (tmp_path / "checkpoint-best").mkdir()

    remove_others(tmp_path, resumed)

    assert kept.exists()
    assert resumed.exists()
    assert not any(path.exists() for path in gone)
    assert (tmp_path / "checkpoint-best").exists()
