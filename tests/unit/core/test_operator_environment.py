"""Which runtime loads the reward models of a job."""

from pathlib import Path

import pytest

from services.core.artifacts import ModelSource
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import RuntimeMissing
from services.core.tool_settings import ToolSettings
from tests.support.runtime.stand_in import add_runtime


def loaded_by(home: Path, **accelerators: str) -> str:
    """The name of the runtime that is chosen among these."""
    for name, accelerator in accelerators.items():
        add_runtime(home / "runtimes", name, accelerator=accelerator)
    chosen = OperatorEnvironment.of(
        ToolSettings(home=home, runtimes=home / "runtimes"), {"rm": ModelSource(path=home)}
    )
    assert chosen.model_python is not None
    return chosen.model_python.parents[1].name


@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
def test_the_training_runtime_is_preferred(tmp_path: Path, accelerator: str) -> None:
    assert loaded_by(tmp_path, vllm=accelerator, training=accelerator) == "training"


def test_a_runtime_for_gpus_is_preferred_to_one_for_cpus(tmp_path: Path) -> None:
    assert loaded_by(tmp_path, training="cpu", vllm="cuda") == "vllm"


def test_the_only_runtime_is_used_and_without_any_the_job_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing):
        loaded_by(tmp_path)
    assert loaded_by(tmp_path, vllm="cpu") == "vllm"
