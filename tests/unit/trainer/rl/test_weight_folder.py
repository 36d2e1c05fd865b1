"""Where published weights pass from the learner to the engine."""

from pathlib import Path

import pytest

from services.trainer.rl.weight_folder import available_memory, weight_folder

KIB = 1024


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of 100 KiB in two files."""
    folder = tmp_path / "model"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"model-{number}.safetensors").write_bytes(bytes(50 * KIB))
    (folder / "tokenizer.json").write_bytes(bytes(900 * KIB))
    return folder


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


def test_weights_pass_through_memory_that_is_freed_afterwards(
    model: Path, shared: Path, tmp_path: Path
) -> None:
    with weight_folder(tmp_path / "job", model, shared, available=400 * KIB) as folder:
        assert folder.is_relative_to(shared)
        (folder / "version-1").mkdir(parents=True)
        assert (folder.parent.stat().st_mode & 0o777) == 0o700

    assert list(shared.iterdir()) == []


@pytest.mark.parametrize(("available", "size"), [(0, None), (399, None), (799, 200 * KIB)])
def test_two_versions_that_fill_half_of_the_free_memory_go_to_the_disk(
    available: int, size: int | None, model: Path, shared: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    with weight_folder(
        tmp_path / "job",
        model,
        shared,
        available=available * KIB,
        version_bytes=size,
        warn=told.append,
    ) as folder:
        assert folder == tmp_path / "job" / "weights"
    (reason,) = told
    assert "2 versions take 0.0 GB" in reason
    assert str(shared) in reason


def test_a_host_without_shared_memory_uses_the_disk(model: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with weight_folder(tmp_path / "job", model, missing, available=1 << 40) as folder:
        assert folder == tmp_path / "job" / "weights"


def test_only_folders_of_killed_trainings_are_removed_from_memory(
    model: Path, shared: Path, tmp_path: Path
) -> None:
    with weight_folder(tmp_path / "running", model, shared, available=1 << 30) as running:
        left = shared / "temper-weights-left"
        left.mkdir(mode=0o700)
        (left / "lock").touch()  # its holder died
        other = shared / "other-program"
        other.mkdir()
        with weight_folder(tmp_path / "next", model, shared, available=1 << 30) as following:
            assert sorted(shared.iterdir()) == sorted([running.parent, following.parent, other])


def test_a_link_among_the_folders_is_not_followed(
    model: Path, shared: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "lock").touch()
    (shared / "temper-weights-link").symlink_to(precious)

    with weight_folder(tmp_path / "job", model, shared, available=1 << 30):
        assert (precious / "lock").exists()


def test_available_memory_is_read_from_the_kernel(tmp_path: Path) -> None:
    said = tmp_path / "meminfo"
    said.write_text("MemTotal:       100 kB\nMemAvailable:    64 kB\n")

    assert available_memory(said) == 64 * KIB
    assert available_memory(tmp_path / "missing") == 0
