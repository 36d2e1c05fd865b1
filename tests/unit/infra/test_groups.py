"""Groups: tests that share a fixture run in one worker."""

import os
import subprocess
import sys
from pathlib import Path

from services.core.process.runtimes import REPOSITORY

TESTS = """
import os
from pathlib import Path

import pytest


@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(8))
def test_subject(number: int) -> None:
    Path(__file__).with_name(os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


def test_a_group_runs_in_one_worker(tmp_path: Path) -> None:
    file = tmp_path / "test_subject.py"
    file.write_text(TESTS)
    plugins = ["-p", "xdist.plugin", "-p", "tests.support.groups", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", *plugins]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "--numprocesses=2", "--dist=loadgroup", file],
        cwd=REPOSITORY,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "8 passed" in done.stdout
    assert len(list(tmp_path.glob("gw*"))) == 1
