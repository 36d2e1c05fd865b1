"""The tiny model of the demonstration, made for tests."""

import subprocess
from pathlib import Path

from services.core.process.runtimes import REPOSITORY
from tests.support.runtimes import installed_runtime

SCRIPT = REPOSITORY / "examples/demo_1_addition/model.py"


def make_tiny_model(folder: Path, runtime: str = "training") -> Path:
    """Create it in ``folder`` with a runtime that has transformers; skips if it is missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = installed_runtime(runtime).python
    subprocess.run([python, SCRIPT, folder], check=True, capture_output=True, timeout=300)
    return folder
