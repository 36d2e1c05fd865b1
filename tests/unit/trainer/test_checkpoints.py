from pathlib import Path

from services.trainer.offline.job_dir import (
    checkpoint_dir,
    keep_only_models,
    mark_complete,
    newest_complete,
    remove_incomplete,
)


def save(output: Path, step: int, *, complete: bool = True) -> Path:
    path = checkpoint_dir(output, step)
    path.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "rng_state_0.pth"):
        (path / name).write_bytes(b"content")
    if complete:
        mark_complete(path, step)
    return path


def test_the_newest_checkpoint_is_the_complete_one_with_the_most_steps(tmp_path: Path) -> None:
    save(tmp_path, 9)
    newest = save(tmp_path, 10)
    save(tmp_path, 11, complete=False)

    assert newest_complete(tmp_path) == newest


def test_checkpoints_that_nothing_loads_again_keep_only_model_files(tmp_path: Path) -> None:
    best, older, newest = (save(tmp_path, step) for step in (1, 2, 3))

    keep_only_models(tmp_path, newest, best)

    assert {path.name for path in older.iterdir()} == {"model.safetensors", "complete.json"}
    assert (newest / "optimizer.pt").exists()
    assert (best / "optimizer.pt").exists()


def test_a_run_without_checkpoints_has_no_newest_checkpoint(tmp_path: Path) -> None:
    assert newest_complete(tmp_path / "missing") is None
    save(tmp_path, 1, complete=False)
    assert newest_complete(tmp_path) is None


def test_only_interrupted_checkpoints_are_removed(tmp_path: Path) -> None:
    kept, gone = save(tmp_path, 1), save(tmp_path, 2, complete=False)
    (tmp_path / "checkpoint-best").mkdir()

    remove_incomplete(tmp_path)

    assert kept.exists()
    assert not gone.exists()
    assert (tmp_path / "checkpoint-best").exists()
