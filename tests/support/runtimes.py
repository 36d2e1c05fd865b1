"""The installed runtimes."""

import os
from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY, Runtime, RuntimeMissing, find_runtime

_HOME = Path(os.environ.get("TEMPER_HOME") or REPOSITORY / ".temper")
FOLDER = Path(os.environ.get("TEMPER_RUNTIMES") or _HOME / "runtimes")


def installed_runtime(name: str) -> Runtime:
    """A runtime, or a skip that says how to install it."""
    try:
        return find_runtime(FOLDER, name)
    except RuntimeMissing as error:
        pytest.skip(error.message)
