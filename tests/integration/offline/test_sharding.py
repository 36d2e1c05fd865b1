"""A reward model sharded over two processes (gloo), with a pause in between.

By ZeRO alone: accelerate chooses FSDP for processes with accelerators only.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from services.contracts.stages import Stage
from services.core.process.pause_request import request_pause_of, withdraw_pause
from services.core.process.reporter import RESULT
from services.trainer.offline.spec import SPEC
from tests.support.offline import OfflineJob


def run(job: OfflineJob) -> dict[str, Any]:
    """Run the child in two processes; return its result."""
    (job.folder / SPEC).write_text(job.spec.model_dump_json())
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *launcher, "--module", "services.trainer.offline", str(job.folder)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (job.folder / RESULT).exists(), done.stderr[-3000:]
    result: dict[str, Any] = json.loads((job.folder / RESULT).read_bytes())
    return result


def losses(job: OfflineJob) -> dict[int, float]:
    return {each["step"]: each["loss"] for each in job.metrics() if "loss" in each}


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("c++") is None, reason="DeepSpeed compiles a part of itself for CPUs, with c++"
)
def test_zero_3_trains_the_same_reward_model_and_resumes_after_a_pause(
    base: Path, tmp_path: Path
) -> None:
    copied = OfflineJob(tmp_path / "copied", base, Stage.RM)
    sharded = OfflineJob(tmp_path / "sharded", base, Stage.RM, sharding="zero3")

    expected = run(copied)
    request_pause_of(sharded.folder)
    paused = run(sharded)
    withdraw_pause(sharded.folder)
    resumed = run(sharded)

    assert (expected["status"], paused["status"]) == ("succeeded", "paused"), (expected, paused)
    assert resumed["status"] == "succeeded", resumed
    assert losses(sharded) == pytest.approx(losses(copied), abs=2e-3)
    model, whole = (
        load_file(job.folder / result["model_dir"] / "model.safetensors")
        for job, result in ((sharded, resumed), (copied, expected))
    )
    assert {name: each.shape for name, each in model.items()} == {
        name: each.shape for name, each in whole.items()
    }
    assert (model["score.weight"] - whole["score.weight"]).abs().max() < 0.02
