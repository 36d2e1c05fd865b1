"""Shared fixtures of the sandbox's unit tests."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DEPTH = 3000


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """A folder nested more deeply than Python can recurse or a path can name."""
    top = tmp_path / "deep"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)
    yield top
    subprocess.run(["rm", "-rf", str(top)], check=True)
