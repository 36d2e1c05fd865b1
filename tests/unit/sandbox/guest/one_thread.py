"""Parts of a slot in a process of their own, as another user than the tests."""

import subprocess
import sys

from services.core.process.runtimes import REPOSITORY

USER = 1_500_000_000


def in_a_process(program: str) -> str:
    """What a program prints; slots have one thread, and a fork of several may hang in setresuid."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
