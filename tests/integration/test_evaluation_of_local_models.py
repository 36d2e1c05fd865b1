"""The evaluation child with a local model, which it serves itself."""

from pathlib import Path

import pytest

from services.contracts.engine import VllmOptions
from services.contracts.evaluations import Sampling
from services.core.process.runtimes import STAMP
from services.evaluator.serving import LocalModel
from tests.integration.evaluation_job import EvaluationJob
from tests.support.runtimes import installed_runtime
from tests.support.tiny_model import make_tiny_model


def phases(job: EvaluationJob) -> list[str]:
    return [report["phase"] for report in job.reports("phase")]


def test_a_model_that_cannot_be_served_fails_the_job_with_the_cause(tmp_path: Path) -> None:
    runtime = tmp_path / "runtimes" / "vllm"
    (runtime / "bin").mkdir(parents=True)
    (runtime / STAMP).write_text('{"version": "1", "accelerator": "cpu"}')
    python = runtime / "bin" / "python"
    python.write_text("#!/bin/sh\necho 'ValueError: no weights in here'\nexit 1\n")
    python.chmod(0o755)
    job = EvaluationJob(tmp_path / "job", LocalModel(path=tmp_path, runtime_python=python), 3)
    job.run()
    assert job.failure()["code"] == "engine_start_failed"
    assert "no weights in here" in job.failure()["message"]
    assert phases(job) == ["loading_model"]
    assert "ValueError: no weights in here" in job.reports("message")[-1]["data"]["log_tail"]


@pytest.mark.runtime
def test_a_local_model_is_served_evaluated_and_stopped(tmp_path: Path) -> None:
    runtime = installed_runtime("vllm")
    weights = make_tiny_model(tmp_path / "weights", "vllm")
    options = VllmOptions(cpu_kv_cache_gib=0.1)
    model = LocalModel(path=weights, runtime_python=runtime.python, options=options)
    job = EvaluationJob(tmp_path / "job", model, 20, sampling=Sampling(max_tokens=4))
    job.run(seconds=300)
    metrics = job.metrics()
    assert (metrics.samples, metrics.errors) == (20, 0)
    assert 20 <= metrics.completion_tokens <= 80
    assert phases(job) == ["loading_model", "generating", "summarizing"]
    assert any("vLLM: ready" in report["message"] for report in job.reports("message"))
