"""Losses and evaluations over several processes (gloo)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def losses(base: Path, folder: Path, processes: int) -> dict[str, float]:
    folder.mkdir()
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    module = ["--module", "tests.support.training.offline_ranks", str(base), str(folder)]
    site_packages = Path(pytest.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, *launcher, *module, str(site_packages)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, float] = json.loads((folder / "losses.json").read_bytes())
    return found


def test_two_processes_match_one_without_desirable_rows_or_with_rows_that_are_repeated(
    base: Path, tmp_path: Path
) -> None:
    one = losses(base, tmp_path / "one", 1)

    two = losses(base, tmp_path / "two", 2)

    assert two == pytest.approx(one, abs=1e-6)
    assert one["kto"] != pytest.approx(0.5, abs=1e-4)
