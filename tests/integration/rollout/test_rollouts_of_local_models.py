"""The rollout child with a local model that it serves itself."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from services.contracts.engine import VllmOptions
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import FinishReason
from services.core.artifacts import ModelSource
from services.core.process.supervised import WATCHDOG
from services.evaluator.serving import LocalModel
from tests.integration.rollout.rollout_job import RolloutJob
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(600)]


def local_job(folder: Path, **fields: Any) -> RolloutJob:
    """Six prompts of two samples each, for a tiny model that the job serves."""
    runtime = installed_runtime("vllm")
    weights = make_tiny_model(folder / "weights", "vllm")
    options = VllmOptions(cpu_kv_cache_gib=0.1)
    model = LocalModel(path=weights, runtime_python=runtime.python, options=options)
    source = ModelSource(path=weights)
    fields = {"multi_turn": MultiTurn(), "samples_per_prompt": 2, **fields}
    return RolloutJob(folder / "job", model, source, 6, **fields)


def server_of(child: int) -> psutil.Process | None:
    """The vLLM server below a rollout child and the server's watchdog."""
    for process in psutil.Process(child).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = process.cmdline()
            if "--port" in " ".join(command) and str(WATCHDOG) not in command:
                return process
    return None


def test_a_local_model_plays_and_a_killed_server_is_replaced(tmp_path: Path) -> None:
    long = RolloutSampling(max_tokens=200)
    job = local_job(tmp_path, sampling=long, samples_per_prompt=10, max_concurrency=4)

    with job.child() as child:
        job.wait_for_trajectories(1)
        server = server_of(child.pid)
        assert server is not None
        server.kill()
        child.wait(300)

    statistics = job.statistics()
    assert (statistics.trajectories, statistics.failed) == (60, 0)
    assert [report["phase"] for report in job.reports("phase")] == [
        *("loading_model", "playing") * 2,
        "summarizing",
    ]
    assert any("starting replacement 1 of 3" in each["message"] for each in job.reports("message"))
    for each in job.trajectories():
        assert each.finish_reason in {FinishReason.LENGTH, FinishReason.ANSWERED}
        assert 1 <= each.sampled_tokens == len(each.response_token_ids) <= 200
        assert all(log_prob < 0.0 for log_prob in each.log_probs)
        assert set(each.policy_versions) == {0}
        assert each.reward is not None
    first, second = (
        {each.id: each for each in job.trajectories()}[f"traj-0-{n}"] for n in range(2)
    )
    assert first.prompt_token_ids == second.prompt_token_ids
    assert first.response_token_ids != second.response_token_ids
