"""The part of the setup that an outdated Python must also understand."""

import ast
import os
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[3] / "infra" / "environment.py"
GO_ON = (
    "import runpy, sys; sys.argv = ['environment.py']; "
    f"runpy.run_path({str(LAUNCHER)!r})['use_newer_python']()"
)


def _go_on(path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", GO_ON],
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _fake_python(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_launcher_parses_as_python_3_7() -> None:
    ast.parse(LAUNCHER.read_text(), feature_version=(3, 7))


def test_without_a_recent_python_the_fix_is_explained(tmp_path: Path) -> None:
    _fake_python(tmp_path / "python3.12", "exit 127")  # a shim without a target
    result = _go_on(tmp_path)
    assert result.returncode == 1
    assert "Temper needs Python 3.11 or newer" in result.stderr
    assert "make demo PYTHON=" in result.stderr


def test_a_newer_python_on_the_path_is_used(tmp_path: Path) -> None:
    _fake_python(tmp_path / "python3.12", 'case "$1" in -c) exit 0;; esac; echo went on')
    result = _go_on(tmp_path)
    assert (result.returncode, result.stdout) == (0, "went on\n")
