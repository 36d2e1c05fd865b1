"""The evaluation child with a local model, which it serves itself."""

import json
from pathlib import Path

import pytest

from services.contracts.engine import VllmOptions
from services.contracts.sampling import Sampling
from services.evaluator.serving import Adapter, LocalModel
from tests.integration.evaluation.evaluation_job import EvaluationJob
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtime.stand_in import add_runtime
from tests.support.runtimes import installed_runtime


def phases(job: EvaluationJob) -> list[str]:
    return [report["phase"] for report in job.reports("phase")]


def test_a_model_that_cannot_be_served_fails_the_job_with_the_cause(tmp_path: Path) -> None:
    program = "#!/bin/sh\necho 'ValueError: no weights in here'\nexit 1\n"
    add_runtime(tmp_path / "runtimes", "vllm", program)
    python = tmp_path / "runtimes" / "vllm" / "bin" / "python"
    job = EvaluationJob(tmp_path / "job", LocalModel(path=tmp_path, runtime_python=python), 3)
    job.run()
    assert job.failure()["code"] == "engine_start_failed"
    assert "no weights in here" in job.failure()["message"]
    assert phases(job) == ["loading_model"]
    assert "ValueError: no weights in here" in job.reports("message")[-1]["data"]["log_tail"]


def adapter_of_a_head(base: Path, folder: Path) -> Path:
    """An adapter that trained the head, which vLLM cannot apply: all logits become equal."""
    config = json.loads((base / "config.json").read_bytes())
    shape = [config["vocab_size"], config["hidden_size"]]
    size = 4 * shape[0] * shape[1]
    folder.mkdir()
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj"],
        "modules_to_save": ["lm_head"],
        "base_model_name_or_path": str(base),
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    weight = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({"base_model.model.lm_head.weight": weight}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(size)
    (folder / "adapter_model.safetensors").write_bytes(content)
    return folder


@pytest.mark.runtime
def test_a_local_model_is_merged_served_evaluated_and_stopped(tmp_path: Path) -> None:
    runtime, training = installed_runtime("vllm"), installed_runtime("training")
    weights = make_tiny_model(tmp_path / "weights", "vllm")
    model = LocalModel(
        path=weights,
        adapter=Adapter(name="head", path=adapter_of_a_head(weights, tmp_path / "adapter")),
        runtime_python=runtime.python,
        merging_python=training.python,
        options=VllmOptions(cpu_kv_cache_gib=0.1),
    )
    job = EvaluationJob(tmp_path / "job", model, 20, sampling=Sampling(max_tokens=4))
    job.run(seconds=300)
    metrics = job.metrics()
    assert (metrics.samples, metrics.errors) == (20, 0)
    assert 20 <= metrics.completion_tokens <= 80
    assert phases(job) == ["merging", "loading_model", "generating", "summarizing"]
    assert any("vLLM: ready" in report["message"] for report in job.reports("message"))
    # Of equal logits greedy sampling takes the first token, whatever the prompt.
    assert len({row.answer for row in job.rows()}) == 1
