"""Training sharded over two processes (gloo) matches that of two replicas. ZeRO only: accelerate
uses FSDP only for processes with accelerators.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from services.contracts.llamafactory.names import Stage
from services.core.artifacts import VALUE_HEAD
from services.core.process.reporter import request_pause_of, withdraw_pause
from tests.support.runtime.compiler import needs_compiler
from tests.support.training.offline import OfflineJob


@pytest.fixture
def scored(base: Path, tmp_path: Path) -> Path:
    """A model with a value head, and without dropout before it: sharded rows are padded, so that a
    new head and what is dropped would be drawn otherwise."""
    folder = tmp_path / "scored"
    shutil.copytree(base, folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"summary_dropout_prob": 0.0}))
    width = config["hidden_size"]
    weight = torch.randn(1, width, generator=torch.Generator().manual_seed(0)) / width**0.5
    head = {"v_head.summary.weight": weight, "v_head.summary.bias": torch.zeros(1)}
    save_file(head, folder / VALUE_HEAD)
    return folder


@pytest.mark.long
@needs_compiler
def test_zero_3_trains_the_same_reward_model_and_resumes_after_a_pause(
    scored: Path, tmp_path: Path
) -> None:
    copied = OfflineJob(tmp_path / "copied", scored, Stage.RM)
    sharded = OfflineJob(tmp_path / "sharded", scored, Stage.RM, sharding="zero3")

    expected = copied.run_in_processes(2)
    request_pause_of(sharded.folder)
    paused = sharded.run_in_processes(2)
    withdraw_pause(sharded.folder)
    resumed = sharded.run_in_processes(2)

    assert (expected["status"], paused["status"]) == ("succeeded", "paused"), (expected, paused)
    assert resumed["status"] == "succeeded", resumed
    assert sharded.losses() == pytest.approx(copied.losses(), abs=2e-3)
    model, whole = (
        load_file(job.folder / result["model_dir"] / "model.safetensors")
        for job, result in ((sharded, resumed), (copied, expected))
    )
    assert {name: each.shape for name, each in model.items()} == {
        name: each.shape for name, each in whole.items()
    }
    assert (model["score.weight"] - whole["score.weight"]).abs().max() < 0.02
