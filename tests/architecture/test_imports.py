"""The folder tree is the architecture: the import contracts of pyproject.toml hold."""

import subprocess
import sys
from pathlib import Path

LINTER = Path(sys.executable).with_name("lint-imports")


def test_the_import_contracts_hold() -> None:
    run = subprocess.run([LINTER, "--no-cache"], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout
