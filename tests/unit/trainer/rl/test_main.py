"""Finishing the coordinator process: the exported model, the result, and the cleanup."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.contracts.training.fine_tuning import Method
from services.core.process.outages import Outage
from services.core.process.reporter import RESULT, Reporter
from services.trainer.rl import __main__ as coordinator
from services.trainer.rl.checkpoints import Checkpoints, PendingSample, Snapshot, TrainingPosition
from services.trainer.rl.setup import OUTPUT
from services.trainer.rl.spec import SPEC, OnlineTask
from tests.support.rl.parts import CountingLearner


@pytest.fixture
def job_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job whose training takes no time: it writes its last checkpoint and exports."""

    async def train(_: Any, job_dir: Path, *__: Any) -> TrainingPosition:
        checkpoints = Checkpoints(job_dir / OUTPUT, keep=1)
        learner = CountingLearner()
        await checkpoints.write(
            3, learner.save, lambda: Snapshot(TrainingPosition(step=3), [pending])
        )
        training: Any = SimpleNamespace(learner=learner, checkpoints=checkpoints)
        await coordinator._export(training, job_dir / coordinator.MODEL)
        return TrainingPosition(step=3)

    trajectory = Trajectory(
        id="traj-0-0",
        prompt_index=0,
        sample_index=0,
        messages=[],
        prompt_token_ids=[],
        finish_reason=FinishReason.ANSWERED,
        created_at=0.0,
    )
    pending = PendingSample(group=0, trajectory=trajectory)
    monkeypatch.setattr(coordinator, "_train", train)
    monkeypatch.setattr(coordinator, "_result", lambda *_: {"global_step": 3})
    task: Any = SimpleNamespace(located=lambda _: None, model=SimpleNamespace(hub_id=None))
    monkeypatch.setattr(OnlineTask, "model_validate_json", lambda _: task)
    (tmp_path / SPEC).write_text("")
    return tmp_path


def test_the_arguments_of_the_result_keep_what_was_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"recipe": "dapo", "overlong": None}
    rewards = [{"name": "right", "reward": {"type": "exact"}}]
    given = {"rewards": rewards, "hyperparameters": settings}
    method = Method.model_validate({"type": "reinforcement", "reinforcement": given})
    runtime = SimpleNamespace(version="1")
    spec: Any = SimpleNamespace(method=method, training=runtime, vllm=runtime)
    monkeypatch.setattr(coordinator, "_stop_token_ids", lambda _: [])

    result = coordinator._result(spec, TrainingPosition(step=3))

    assert Method.model_validate(result["arguments"]) == method


def test_training_killed_before_its_result_can_resume(
    job_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "finish", killed)
        with pytest.raises(SystemExit):
            coordinator.main(job_dir)
    checkpoint = Checkpoints(job_dir / OUTPUT, keep=1).newest()
    assert checkpoint is not None
    assert [sample.group for sample in checkpoint.samples()] == [0]
    assert CountingLearner.of(checkpoint.learner).updates == 0

    coordinator.main(job_dir)
    assert json.loads((job_dir / RESULT).read_text())["status"] == "succeeded"


def test_finished_training_is_not_repeated(job_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator.main(job_dir)
    result = (job_dir / RESULT).read_bytes()
    monkeypatch.setattr(coordinator, "_train", None)
    coordinator.main(job_dir)
    assert (job_dir / RESULT).read_bytes() == result


def test_a_training_in_an_outage_leaves_its_cause_for_the_worker(
    job_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def train(*_: Any) -> None:
        raise ExceptionGroup("tasks", [Outage("search is down")])

    monkeypatch.setattr(coordinator, "_train", train)
    coordinator.main(job_dir)
    result = json.loads((job_dir / RESULT).read_text())
    assert result["status"] == "paused"
    assert result["outage"] == {"message": "search is down", "seconds": 30.0}
