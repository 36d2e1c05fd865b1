"""The README tells every setting."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_table_of_settings_is_current() -> None:
    command = [sys.executable, "infra/settings_table.py", "--check"]

    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == 0
