"""Online training with a real learner and a real vLLM, killed on its way, and replayed."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.contracts.rollouts.trajectories import Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.log.log import read_indexed
from services.rollouts.log.parquet import write_parquet
from services.rollouts.log.updates import find_update
from services.rollouts.prompts import Prompt
from services.trainer.rl.groups import BatchBuilder, Group
from services.trainer.rl.learner.protocol import Done, Update
from tests.integration.rl.training_job import OnlineJob
from tests.support.evaluation.trajectory_files import read_parquet
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime
from tests.support.training.learner_child import learner_child
from tests.support.training.learning import learner_spec
from tests.unit.inference.scripted_server import Exchange, answer, running_server

pytestmark = pytest.mark.runtime

REWARDS = [{"name": "written", "reward": {"type": "search_em", "format_score": 0.5}}]
SETTINGS: dict[str, Any] = {
    "steps": 5,
    "prompts_per_step": 2,
    "samples_per_prompt": 4,
    "max_prompt_length": 256,
    "max_staleness": 1,
    "checkpoint_steps": 2,
    "eval_interval": 2,
    "eval_samples": 2,
    "sampling": {"max_tokens": 24},
    "optimizer": {"learning_rate": 1e-3},
    "engine": {"max_model_len": 512, "cpu_kv_cache_gib": 0.1},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_killed_training_resumes_and_finishes_with_a_model(tmp_path: Path, model: Path) -> None:
    job = OnlineJob(
        tmp_path / "job",
        model,
        "reinforcement",
        held_out=3,
        rewards=REWARDS,
        hyperparameters=SETTINGS,
    )
    job.run_until_checkpoint(2)
    result = job.run()

    assert (result["kind"], result["global_step"]) == ("full", 5)
    assert (job.folder / result["model_dir"] / "model.safetensors").is_file()
    assert any("Resuming after step" in report["message"] for report in job.reports("message"))
    assert [metrics["step"] for metrics in job.metrics()] == [0, 1, 2, 3, 4, 5]
    evaluated = [metrics["step"] for metrics in job.metrics() if "eval_reward" in metrics]
    assert evaluated == [0, 2, 4, 5]
    for metrics in job.metrics()[1:]:
        assert metrics["sync_difference"] < 1e-3
        assert metrics["staleness_max"] <= 1
        assert metrics["trained_tokens"] > 0

    trajectories = list(read_indexed(job.folder))
    assert len({trajectory.id for trajectory in trajectories}) == len(trajectories) == 5 * 2 * 4
    versions = {version for t in trajectories for version in t.policy_versions if version >= 0}
    assert versions <= set(range(5))
    assert len(versions) > 1
    for trajectory in trajectories:
        check_update(job.folder, trajectory)
    for checkpoint in job.reports("checkpoint")[-2:]:
        assert (job.folder / checkpoint["path"] / "config.json").is_file()

    replayed = replay(job, model, tmp_path / "replay")
    assert replayed.metrics["importance_weight_max"] == pytest.approx(1.0, abs=1e-3)
    assert replayed.metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-3)


def test_learner_and_engine_agree_on_every_bit(tmp_path: Path, model: Path) -> None:
    settings = {**SETTINGS, "steps": 2, "max_staleness": 0, "exact_on_policy": True}
    job = OnlineJob(
        tmp_path / "job", model, "reinforcement", rewards=REWARDS, hyperparameters=settings
    )

    job.run()

    for metrics in job.metrics():
        assert metrics["sampler_difference_mean"] == metrics["sampler_difference_p999"] == 0.0
        assert 0.0 < metrics["learner_idle_share"] < 1.0
        assert 0.0 < metrics["engine_idle_share"] < 1.0


@pytest.mark.long
def test_training_waits_for_its_reward_and_learns_nothing_meanwhile(
    tmp_path: Path, model: Path
) -> None:
    settings = {**SETTINGS, "steps": 3, "max_staleness": 0, "checkpoint_steps": 1}
    with running_server() as server:
        url = server.url
        judged = 0

        def judge(exchange: Exchange) -> None:
            nonlocal judged
            judged += 1
            if judged > 8:  # those of the first step
                answer(503, retry_after="0")(exchange)
            else:
                answer(body={"score": judged % 2})(exchange)

        server.script = [judge]
        job = OnlineJob(
            tmp_path / "job",
            model,
            "reinforcement",
            environment=OperatorEnvironment(attempts=1).variables(),
            rewards=[{"name": "judge", "reward": {"type": "http", "url": url}}],
            hyperparameters=settings,
        )
        outage = job.run_to_outage()
        assert outage["seconds"] == 30.0
        assert "overloaded" in outage["message"]
        trained = {line["step"] for line in job.metrics()}
        assert trained == {1}
        assert [each["step"] for each in job.reports("checkpoint")][-1] == 1
        lost = [each for each in read_indexed(job.folder) if each.left_out is not None]
        assert {each.left_out.source for each in lost if each.left_out} == {"reward:judge"}
    again = job.run_to_outage()  # nothing listens: found before a model is loaded
    assert "does not respond" in again["message"]
    assert again["seconds"] == 60.0

    with running_server(int(url.rsplit(":", 1)[1].split("/")[0])) as server:
        server.script = [answer(body={"score": 1.0}), answer(body={"score": 0.0})] * 200
        job.run()
    assert [line["step"] for line in job.metrics()] == [1, 2, 3]


def check_update(folder: Path, trajectory: Trajectory) -> None:
    """The log of updates has the values of exactly the tokens that the policy sampled."""
    update = find_update(folder, trajectory.id)
    assert update is not None
    assert update.values is not None
    log_probs, entropies, _ = update.values.T
    versions = np.array(trajectory.policy_versions)
    sampled = versions >= 0
    assert len(log_probs) == sampled.sum()
    assert (entropies > 0).all()
    # What the version sampled that was then updated, the learner gave the same probability.
    current = versions[sampled] == update.step - 1
    sampler = np.array(trajectory.log_probs)[sampled]
    np.testing.assert_allclose(log_probs[current], sampler[current], atol=0.01)


def replay(job: OnlineJob, model: Path, folder: Path) -> Done:
    """Train the initial model on its own recorded samples."""
    folder.mkdir()
    write_parquet(read_indexed(job.folder), folder / "trajectories.parquet")
    recorded = [
        trajectory
        for trajectory in read_parquet(folder / "trajectories.parquet")
        if set(trajectory.policy_versions) == {0}
    ]
    group = Group(0, Prompt(0, (), (), {}), len(recorded), 0, rewarded=True)
    group.samples |= dict(enumerate(recorded))
    batch = asyncio.run(BatchBuilder(max_length=24).of([group]))
    batch.save(folder / "batch.npz")
    with tempfile.TemporaryDirectory() as short:
        spec = learner_spec(model, "reinforcement", Path(short))
        python = installed_runtime("training").python
        with learner_child(python, spec, folder) as child:
            answer = child.ask(Update(step=0, batch=folder / "batch.npz"))
    assert isinstance(answer, Done), answer
    return answer
