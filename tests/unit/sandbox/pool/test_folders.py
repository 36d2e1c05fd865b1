"""The folder of a pool, and those that ended services have left."""

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


def test_every_user_can_enter_it(temporary: Path) -> None:
    folder = make_folder()

    assert folder.stat().st_mode & 0o777 == 0o755
    assert folder.parent == temporary


def test_what_an_ended_service_left_is_removed(temporary: Path, deep_tree: Path) -> None:
    left = temporary / f"temper-sandbox-{ended_process()}-abc"
    left.mkdir()
    deep_tree.rename(left / "deep")

    make_folder()

    assert not left.exists()


@pytest.mark.parametrize("owner", ["own-", "1-", "", "x-", "okvus39b"])
def test_what_is_no_ended_services_stays(temporary: Path, owner: str) -> None:
    other = temporary / f"temper-sandbox-{owner.replace('own', str(os.getpid()))}abc"
    other.mkdir()

    make_folder()

    assert other.exists()


def test_it_is_removed_however_deep_it_is(deep_tree: Path) -> None:
    remove_folder(deep_tree)

    assert not deep_tree.exists()


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    remove_folder(tmp_path / "absent")
