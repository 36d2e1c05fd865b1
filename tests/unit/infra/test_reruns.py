"""Reruns: one second attempt for marked tests, reported as such."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY

TESTS = """
from pathlib import Path

import pytest

ATTEMPTS = Path(__file__).with_name("attempts")


def attempt() -> int:
    with ATTEMPTS.open("a") as file:
        file.write("x")
    return len(ATTEMPTS.read_text())


{mark}
def test_subject() -> None:
    assert attempt() > {failures}
"""
MARK = '@pytest.mark.flaky_under_load("waits for a slow neighbor")'


def run(folder: Path, *, mark: str, failures: int) -> tuple[int, str, int]:
    """Exit code, output, and number of attempts of a test whose first ``failures`` fail."""
    file = folder / "test_subject.py"
    file.write_text(TESTS.format(mark=mark, failures=failures))
    plugins = ["-p", "tests.support.reruns", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", folder, *plugins, file],
        cwd=REPOSITORY,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, len((folder / "attempts").read_text())


def test_a_marked_test_gets_a_second_attempt_that_is_reported(tmp_path: Path) -> None:
    code, output, attempts = run(tmp_path, mark=MARK, failures=1)

    assert (code, attempts) == (0, 2)
    assert "1 passed" in output
    assert "1 rerun" in output
    assert "RERUN test_subject.py::test_subject" in output
    assert "assert 1 > 1" in output
    assert "Known to fail under load: waits for a slow neighbor" in output


def test_a_second_failure_is_a_failure(tmp_path: Path) -> None:
    code, output, attempts = run(tmp_path, mark=MARK, failures=2)

    assert (code, attempts) == (1, 2)
    assert "1 failed" in output


@pytest.mark.parametrize(("failures", "expected"), [(0, 0), (1, 1)])
def test_an_unmarked_test_has_one_attempt(tmp_path: Path, failures: int, expected: int) -> None:
    code, output, attempts = run(tmp_path, mark="", failures=failures)

    assert (code, attempts) == (expected, 1)
    assert "rerun" not in output
