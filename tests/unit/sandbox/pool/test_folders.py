"""The folder of a pool, and those left behind by dead services."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from services.sandbox.pool.pool import make_folder, remove_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_every_user_can_enter_the_folder(temporary: Path) -> None:
    folder = make_folder()

    assert folder.stat().st_mode & 0o777 == 0o755
    assert folder.parent == temporary


def test_folders_of_dead_services_are_removed(temporary: Path, deep_tree: Path) -> None:
    left = temporary / f"temper-sandbox-{ended_process()}-abc"
    left.mkdir()
    deep_tree.rename(left / "deep")

    make_folder()

    assert not left.exists()


@pytest.mark.parametrize("owner", ["own-", "1-", "", "x-", "okvus39b"])
def test_other_folders_are_kept(temporary: Path, owner: str) -> None:
    other = temporary / f"temper-sandbox-{owner.replace('own', str(os.getpid()))}abc"
    other.mkdir()

    make_folder()

    assert other.exists()


def test_deep_folders_are_removed(deep_tree: Path) -> None:
    remove_folder(deep_tree)

    assert not deep_tree.exists()


def test_removing_a_missing_group_succeeds(tmp_path: Path) -> None:
    remove_folder(tmp_path / "absent")
