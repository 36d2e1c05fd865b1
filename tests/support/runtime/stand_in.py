"""Runtimes without libraries, for tests of what chooses and starts them."""

import json
from pathlib import Path

from services.core.process.runtimes import STAMP


def add_runtime(
    runtimes: Path,
    name: str,
    program: str = "",
    *,
    version: str = "1",
    accelerator: str = "cpu",
) -> None:
    """Write a runtime whose Python is ``program``."""
    python = runtimes / name / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(program)
    python.chmod(0o700)
    stamp = {"version": version, "accelerator": accelerator}
    (runtimes / name / STAMP).write_text(json.dumps(stamp))
