"""The learner's processes, driven over a socket."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from services.core.process.runtimes import REPOSITORY, child_environment
from services.trainer.rl.learner.protocol import (
    Answer,
    Done,
    Export,
    Failed,
    Finish,
    LearnerSpec,
    Probe,
    Publish,
    Save,
    Update,
)
from tests.support.runtimes import installed_runtime
from tests.support.training.learner_child import DEADLINE, LearnerChild, learner_child
from tests.support.training.learning import drawn_batch, learner_spec

pytestmark = pytest.mark.runtime
COMPILES = pytest.mark.skipif(
    shutil.which("c++") is None, reason="DeepSpeed compiles a part of itself for CPUs, with c++"
)
PROBE = Probe(token_ids=[[1, 2, 3, 4, 5], [9, 8, 7]])
METRICS = ("loss", "grad_norm", "entropy", "kl", "ratio_mean", "trained_tokens")


@dataclass(frozen=True)
class Run:
    """A learner's answers, and its exit status."""

    updates: list[Done]
    log_probs: list[list[float]]
    last: Answer | None
    returncode: int


@pytest.fixture(scope="module")
def python() -> Path:
    return installed_runtime("training").python


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Of a short path, as the addresses of sockets must be."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(python: Path, folder: Path) -> Path:
    script = REPOSITORY / "examples/demo_1_addition/model.py"
    environment = child_environment({"OMP_NUM_THREADS": "1"})
    command = [python, script, folder / "base"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=DEADLINE)
    return folder / "base"


@pytest.fixture(scope="module")
def alone(python: Path, base: Path, folder: Path) -> Run:
    """One process, which finally gets a request that it cannot fulfill."""
    spec = spec_in(folder / "alone", base)
    with learner_child(python, spec, folder / "alone") as child:
        updates, log_probs = learned(child, folder / "alone", 0, 1)
        for request in (Publish(folder=folder / "published"), Export(folder=folder / "exported")):
            assert isinstance(child.ask(request), Done)
        last = child.ask(Update(step=2, batch=folder / "missing.npz"))
        returncode = child.process.wait(DEADLINE)
    return Run(updates, log_probs, last, returncode)


def spec_in(folder: Path, base: Path, **settings: Any) -> LearnerSpec:
    folder.mkdir()
    return learner_spec(
        base,
        "reinforcement",
        folder,
        mini_batches=2,
        micro_batch_tokens=96,
        loss={"kl": {"coefficient": 0.1}},
        **settings,
    )


def learned(child: LearnerChild, folder: Path, *steps: int) -> tuple[list[Done], list[list[float]]]:
    answers = []
    for step in steps:
        drawn_batch(seed=step, sequences=12).save(folder / "batch.npz")
        answers.append(child.ask(Update(step=step, batch=folder / "batch.npz")))
    probe = child.ask(PROBE)
    assert isinstance(probe, Done)
    return [each for each in answers if isinstance(each, Done)], probe.log_probs


def assert_alike(one: Run, updates: list[Done], log_probs: list[list[float]]) -> None:
    for left, right in zip(one.updates, updates, strict=True):
        for name in METRICS:
            assert right.metrics[name] == pytest.approx(left.metrics[name], rel=1e-3), name
    for expected, found in zip(one.log_probs, log_probs, strict=True):
        assert found == pytest.approx(expected, abs=1e-3)


def assert_same_weights(one: Path, other: Path) -> None:
    expected, found = (load_file(each / "model.safetensors") for each in (one, other))
    assert found.keys() == expected.keys()
    for name, weights in expected.items():
        assert found[name] == pytest.approx(weights, abs=1e-3), name


def test_learner_publishes_and_exports_models(alone: Run, folder: Path) -> None:
    for name in ("published", "exported"):
        files = {path.name for path in (folder / name).iterdir()}
        assert {"model.safetensors", "config.json", "tokenizer.json"} <= files


def test_failed_learner_reports_why_and_exits(alone: Run) -> None:
    assert isinstance(alone.last, Failed)
    assert "missing.npz" in alone.last.message
    assert alone.returncode == 1


def test_two_processes_match_one_and_exit_with_the_connection(
    alone: Run, python: Path, base: Path, folder: Path
) -> None:
    spec = spec_in(folder / "ddp", base)
    with learner_child(python, spec, folder / "ddp", processes=2) as child:
        updates, log_probs = learned(child, folder / "ddp", 0, 1)
        child.hang_up()
        assert child.process.wait(DEADLINE) == 0
    assert_alike(alone, updates, log_probs)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "fsdp"},
        pytest.param({"strategy": "deepspeed", "zero_stage": 1}, marks=COMPILES),
        pytest.param({"strategy": "deepspeed"}, marks=COMPILES),
        pytest.param({"strategy": "deepspeed", "zero_stage": 3}, marks=COMPILES),
    ],
    ids=["fsdp", "zero-1", "zero-2", "zero-3"],
)
def test_sharded_processes_match_one_across_a_restart(
    alone: Run, python: Path, base: Path, folder: Path, settings: Mapping[str, Any]
) -> None:
    own = Path(tempfile.mkdtemp(dir=folder))
    spec = spec_in(own / "run", base, **settings)
    with learner_child(python, spec, own / "run", processes=2) as child:
        first, _ = learned(child, own / "run", 0)
        assert isinstance(child.ask(Save(folder=own / "saved")), Done)
    spec.socket.unlink()
    resumed = spec.model_copy(update={"checkpoint": own / "saved"})
    with learner_child(python, resumed, own / "run", processes=2) as child:
        second, log_probs = learned(child, own / "run", 1)
        assert isinstance(child.ask(Export(folder=own / "exported")), Done)
        assert isinstance(child.ask(Finish()), Done)
        assert child.process.wait(DEADLINE) == 0
    assert_alike(alone, [*first, *second], log_probs)
    assert_same_weights(folder / "exported", own / "exported")
