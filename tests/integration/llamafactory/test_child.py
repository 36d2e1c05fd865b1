"""The training child runs LLaMA-Factory on a tiny model, on the CPU."""

import json
import math
import os
import shutil
import signal
from typing import Any

import pytest

from services.core.process.reporter import (
    METRICS,
    REPORTS,
    RESULT,
    request_pause_of,
    withdraw_pause,
)

from .training_job import Job

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(600)]


def rows(count: int = 40) -> list[dict[str, Any]]:
    return [
        {
            "messages": [
                {"role": "user", "content": f"Say {number}."},
                {"role": "assistant", "content": f"{number}!"},
            ]
        }
        for number in range(count)
    ]


def test_a_full_fine_tune_produces_a_model_and_metrics(job: Job) -> None:
    job.write(rows(), arguments={"val_size": 0.2}, warmup_ratio=0.2)

    result = job.run()

    assert result["status"] == "succeeded"
    assert result["global_step"] == result["max_steps"] == 8
    assert result["trained_tokens"] > 0
    trained, held = result["training_rows"], result["validation_rows"]
    assert (trained + held, held) == (len(rows()), math.ceil(0.2 * len(rows())))
    assert result["library_versions"]["llamafactory"]
    model = job.directory / result["model_dir"]
    assert {path.name for path in model.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    metrics = [json.loads(line) for line in (job.directory / METRICS).read_text().splitlines()]
    assert [m["step"] for m in metrics if "loss" in m] == list(range(1, 9))
    assert {"learning_rate", "grad_norm", "tokens_per_second", "samples_per_second"} <= set(
        metrics[0]
    )
    assert any("eval_loss" in m for m in metrics)
    assert job.reports("progress")[-1]["step"] == 8
    for checkpoint in job.reports("checkpoint"):
        assert (job.directory / checkpoint["path"] / "complete.json").exists()
    order = ["starting", "loading_model", "preparing_data", "configuring", "tokenizing"]
    assert list(dict.fromkeys(job.phases())) == [*order, "training", "saving"]
    # A finished job is not trained again.
    reported = len(job.reports("phase"))
    assert job.run() == result
    assert len(job.reports("phase")) == reported


def test_an_adapter_is_trained_and_then_continued(job: Job) -> None:
    arguments = {"max_steps": 3, "save_strategy": "no"}
    job.write(rows(), method="lora", lora={"rank": 4}, template="chatml", arguments=arguments)
    first = job.run()
    adapter = job.directory / "first"
    shutil.move(job.directory / first["model_dir"], adapter)
    (job.directory / RESULT).unlink()

    job.write(rows(), adapter=str(adapter))
    second = job.run()

    assert (first["kind"], first["needs_merge"]) == ("lora", False)
    assert first["stop_token_ids"] == [258, 257]  # <|im_end|>, and <|im_start|> of the template
    assert second["status"] == "succeeded"
    folder = job.directory / second["model_dir"]
    assert (folder / "adapter_model.safetensors").exists()
    assert (folder / "adapter_model.safetensors").read_bytes() != (
        adapter / "adapter_model.safetensors"
    ).read_bytes()
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == 4


def test_a_killed_training_resumes_from_the_newest_complete_checkpoint(job: Job) -> None:
    job.write(rows(400), arguments={"save_steps": 5})
    process = job.start()
    job.wait_for(lambda: job.reports("checkpoint"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    # Judged by the disk: a kill may fall between a checkpoint and its report.
    complete = job.directory.glob("output/checkpoint-*/complete.json")
    saved = max(json.loads(marker.read_bytes())["step"] for marker in complete)
    interrupted = job.directory / "output/checkpoint-99"
    shutil.copytree(job.directory / f"output/checkpoint-{saved}", interrupted)
    (interrupted / "complete.json").unlink()
    reported = len(job.reports("metrics"))

    result = job.run()

    assert result["status"] == "succeeded"
    assert result["global_step"] == result["max_steps"] == 100
    texts = [report["message"] for report in job.reports("message")]
    assert f"resuming from output/checkpoint-{saved}" in texts
    assert job.reports("metrics")[reported]["step"] == saved + 1
    assert not interrupted.exists()


def test_a_paused_training_ends_with_the_weights_of_an_unpaused_one(job: Job) -> None:
    arguments = {"logging_steps": 1, "save_strategy": "no", "eval_strategy": "no"}
    job.write(rows(200), arguments=arguments, n_epochs=1.5)
    process = job.start()
    job.wait_for(lambda: any(report["step"] >= 7 for report in job.reports("metrics")))

    request_pause_of(job.directory)

    assert process.wait(60) == 0
    assert json.loads((job.directory / RESULT).read_bytes()) == {"status": "paused"}
    [checkpoint] = job.reports("checkpoint")
    assert checkpoint["step"] == job.reports("metrics")[-1]["step"] < 75
    withdraw_pause(job.directory)
    result = job.run()
    losses = [report["metrics"]["loss"] for report in job.reports("metrics")]
    weights = (job.directory / result["model_dir"] / "model.safetensors").read_bytes()

    for folder in ("output", "data"):
        shutil.rmtree(job.directory / folder, ignore_errors=True)
    for name in (RESULT, REPORTS):
        (job.directory / name).unlink()
    whole = job.run()

    assert losses == [report["metrics"]["loss"] for report in job.reports("metrics")]
    assert weights == (job.directory / whole["model_dir"] / "model.safetensors").read_bytes()


def test_a_pause_before_training_exits_the_child_immediately(job: Job) -> None:
    job.write(rows())
    request_pause_of(job.directory)

    assert job.run() == {"status": "paused"}

    assert job.phases() == ["starting"]


def test_a_stop_request_ends_the_child_without_a_result(job: Job) -> None:
    job.write(rows(400), n_epochs=100.0)
    process = job.start()
    job.wait_for(lambda: "training" in job.phases())

    process.terminate()

    assert process.wait(60) == -signal.SIGTERM
    assert not (job.directory / RESULT).exists()


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"training_data": "bad"}, "bad_data", "row 3: messages[0].content is missing"),
        ({"model": {"path": "/nowhere"}}, "model_load_failed", "/nowhere"),
        ({"arguments": {"lora_rnk": 3}}, "invalid_arguments", "lora_rank"),
        ({"template": "no_such"}, "invalid_arguments", "no_such"),
        ({"learning_rate": 1e30}, "diverged", "the loss is nan"),
    ],
)
def test_a_failure_is_explained_in_one_line(
    job: Job, changes: dict[str, Any], code: str, message: str
) -> None:
    data = rows()
    if changes.get("training_data") == "bad":
        data[2] = {"messages": [{"role": "user"}]}
        changes = {}
    job.write(data, **changes)

    result = job.run()

    assert result["status"] == "failed"
    assert result["error"]["code"] == code, result
    assert message in result["error"]["message"]
    assert "\n" not in result["error"]["message"]


def test_several_processes_train_one_model(job: Job) -> None:
    job.write(rows(), arguments={"max_steps": 3})

    result = job.run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")

    assert result["status"] == "succeeded"
    assert result["arguments"]["per_device_train_batch_size"] == 2
    assert [report["step"] for report in job.reports("metrics")] == [1, 2, 3]
    assert job.phases().count("training") == 1


def test_several_processes_pause_at_one_step(job: Job) -> None:
    job.write(rows(), arguments={"max_steps": 500})
    process = job.start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")
    job.wait_for(lambda: job.reports("metrics"))

    request_pause_of(job.directory)

    assert process.wait(120) == 0
    assert json.loads((job.directory / RESULT).read_bytes()) == {"status": "paused"}
    folder = job.directory / job.reports("checkpoint")[-1]["path"]
    states = {path.name for path in folder.glob("rng_state*.pth")}
    assert states == {"rng_state_0.pth", "rng_state_1.pth"}
