"""The rollout child with a local model that it serves itself."""

from pathlib import Path

import pytest

from services.contracts.engine import VllmOptions
from services.contracts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.trajectories import FinishReason
from services.core.artifacts import ModelSource
from services.evaluator.serving import LocalModel
from tests.integration.rollout.rollout_job import RolloutJob
from tests.support.runtimes import installed_runtime
from tests.support.tiny_model import make_tiny_model


@pytest.mark.runtime
def test_a_local_model_is_served_for_the_rollouts_and_then_stopped(tmp_path: Path) -> None:
    runtime = installed_runtime("vllm")
    weights = make_tiny_model(tmp_path / "weights", "vllm")
    options = VllmOptions(cpu_kv_cache_gib=0.1)
    model = LocalModel(path=weights, runtime_python=runtime.python, options=options)
    sampling = RolloutSampling(max_tokens=8)
    job = RolloutJob(
        tmp_path / "job",
        model,
        ModelSource(path=weights),
        6,
        samples_per_prompt=2,
        sampling=sampling,
        multi_turn=MultiTurn(),
    )

    job.run(seconds=300)

    statistics = job.statistics()
    assert (statistics.trajectories, statistics.failed) == (12, 0)
    assert [report["phase"] for report in job.reports("phase")] == [
        "loading_model",
        "playing",
        "summarizing",
    ]
    for each in job.trajectories():
        assert each.finish_reason in {FinishReason.LENGTH, FinishReason.ANSWERED}
        assert 1 <= each.sampled_tokens == len(each.response_token_ids) <= 8
        assert all(log_prob < 0.0 for log_prob in each.log_probs)
        assert set(each.policy_versions) == {0}
        assert each.reward is not None
    first, second = (
        {each.id: each for each in job.trajectories()}[f"traj-0-{n}"] for n in range(2)
    )
    assert first.prompt_token_ids == second.prompt_token_ids
    assert first.response_token_ids != second.response_token_ids
