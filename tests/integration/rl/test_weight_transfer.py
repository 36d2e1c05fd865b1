"""What a learner sends is what vLLM's own weight-transfer engines receive."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY, child_environment
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime


def test_vllms_engines_take_what_a_learner_sends() -> None:
    done = subprocess.run(
        [installed_runtime("vllm").python, "-m", "tests.support.engines.received_weights"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=child_environment({}),
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[-3:] == ["check_buffers", "check_broadcast", "check_versions"]


@pytest.mark.long
def test_weights_pass_on_gpus_without_files(tmp_path: Path) -> None:
    gpus = visible_gpus()
    if not gpus:
        pytest.skip("needs a GPU: CUDA IPC is tried on one, NCCL on two")
    model = tmp_path / "model"
    python = installed_runtime("training").python
    made = [str(python), str(REPOSITORY / "examples/demo_1_addition/model.py"), str(model)]
    subprocess.run(made, check=True, capture_output=True, timeout=300)
    for count, transport in ((1, "CUDA IPC"), (2, "NCCL")):
        if count > len(gpus):
            continue
        command = [sys.executable, "-m", "benchmarks.rl.weight_sync", "--syncs", "1"]
        command += ["--model", str(model), "--gpus", ",".join(gpus[:count])]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, cwd=REPOSITORY
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert f"weights by {transport}" in done.stdout
        assert "failed" not in done.stdout


def visible_gpus() -> list[str]:
    """The indices of this host's GPUs."""
    if shutil.which("nvidia-smi") is None:
        return []
    asked = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
