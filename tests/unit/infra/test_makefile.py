import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[3] / "Makefile"


@pytest.mark.parametrize(
    "target",
    ["demo", "fast", "test", "test-rest", "test-full", "test-long", "lint", "format", "lock"],
)
def test_targets_expand_in_a_folder_with_a_space(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(MAKEFILE, folder)
    planned = subprocess.run(
        ["make", "--dry-run", target],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert planned.returncode == 0, planned.stderr
    assert "infra/environment.py" in planned.stdout
