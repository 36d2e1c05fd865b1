"""Every stage trains a tiny model, reports its metrics and resumes where it stopped."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from services.contracts.llamafactory.names import Stage
from services.core.process.reporter import REPORTS
from services.trainer.offline.job_dir import mark_complete
from tests.support.training.offline import OfflineJob, rows_of

PAIRS = {f"rewards/{name}" for name in ("chosen", "rejected", "margins", "accuracies")}
SIDES = {f"{name}/{side}" for name in ("logps", "logits") for side in ("chosen", "rejected")}
METRICS = {
    Stage.SFT: {"loss", "accuracy"},
    Stage.DPO: PAIRS | SIDES,
    Stage.KTO: {*SIDES, "kl", "count/chosen", "count/rejected", "rewards/chosen"},
    Stage.RM: PAIRS,
    Stage.PT: {"loss"},
}
STAGES = pytest.mark.parametrize("stage", list(METRICS))
STEPS = {"save_steps": 2, "logging_steps": 1}


class Killed(BaseException):
    """The process ends here."""


@STAGES
def test_a_stage_reports_its_metrics_and_resumes_with_the_same_losses(
    stage: Stage, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"arguments": STEPS}
    if stage is Stage.PT:
        changes |= {"max_seq_len": 33}
    whole = OfflineJob(tmp_path / "whole", base, stage, **changes)
    result = whole.run()
    halved = OfflineJob(tmp_path / "halved", base, stage, **changes)

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(halved.context.reporter, "checkpoint", kill)
        with pytest.raises(Killed):
            halved.run()
    resumed = OfflineJob(tmp_path / "halved", base, stage, **changes).run()

    assert result["global_step"] == result["max_steps"] == resumed["global_step"] >= 4
    assert result["kind"] == "full"
    assert result["trained_tokens"] > 0
    reported = {name for entry in whole.metrics() for name in entry}
    assert METRICS[stage] <= reported
    losses = {entry["step"]: entry["loss"] for entry in whole.metrics() if "loss" in entry}
    again = {entry["step"]: entry["loss"] for entry in halved.metrics() if "loss" in entry}
    assert again == pytest.approx(losses, rel=1e-4)
    reported_steps = [entry["step"] for entry in halved.metrics() if "loss" in entry]
    assert reported_steps == sorted(set(reported_steps))  # nothing was trained again
    assert {path.suffix for path in (tmp_path / "whole" / result["model_dir"]).iterdir()} <= {
        ".json",
        ".jinja",
        ".safetensors",
    }


def test_a_kill_while_old_checkpoints_are_replaced_loses_no_state(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"max_steps": 5, "save_steps": 1, "logging_steps": 1, "save_total_limit": 2}
    whole, halved = (OfflineJob(tmp_path / n, base, Stage.SFT, arguments=steps) for n in "ab")

    def mark(path: Path, step: int, timing: Any) -> None:
        if step == 3:
            raise Killed
        mark_complete(path, step, timing)

    whole.run()
    with monkeypatch.context() as patched:
        patched.setattr("services.trainer.offline.progress.mark_complete", mark)
        with pytest.raises(Killed):
            halved.run()
    result = halved.run()

    assert result["timed_steps"] == 5
    assert halved.losses() == pytest.approx(whole.losses(), rel=1e-5)
    for job in (whole, halved):
        left = {path.name for path in job.folder.glob("output/checkpoint-*")}
        assert left == {"checkpoint-4", "checkpoint-5"}
    reports = map(json.loads, (whole.folder / REPORTS).read_text().splitlines())
    kept = [each["kept"] for each in reports if each["type"] == "checkpoint"]
    assert kept == [[1], [1, 2], [2, 3], [3, 4], [4, 5]]


@pytest.mark.parametrize(
    ("stage", "metric"), [(Stage.DPO, "rewards/margins"), (Stage.RM, "rewards/accuracies")]
)
def test_each_validation_file_has_its_own_metrics(
    stage: Stage, metric: str, base: Path, tmp_path: Path
) -> None:
    sets = {}
    for name, count in (("easy", 2), ("hard-1", 4)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(stage, count)))
        sets[name] = {"path": str(path)}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "hard-1_loss"}
    arguments = {"max_steps": 2, "eval_steps": 1, "save_steps": 1} | (
        best if stage is Stage.DPO else {}
    )
    job = OfflineJob(tmp_path / "job", base, stage, validation_sets=sets, arguments=arguments)

    job.run()

    reported = {name for entry in job.metrics() for name in entry}
    for name in sets:
        assert {f"eval_{name}_loss", f"eval_{name}_{metric}"} <= reported
    assert not {"eval_loss", f"eval_{metric}"} & reported
    reports = json.loads((job.folder / "fidelity.json").read_text())
    assert [each["verdict"] for each in reports.values()] == ["faithful"] * len(reports)
    assert "valid_easy_loss" in (job.folder / "step_metrics.csv").read_text().splitlines()[0]


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_the_finished_model_is_the_best_checkpoint_by_the_named_metric(
    metric: str, base: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    validation = tmp_path / "validation.jsonl"
    validation.write_text("".join(json.dumps(row) + "\n" for row in rows_of(Stage.SFT, 4)))
    best = {"load_best_model_at_end": True, "metric_for_best_model": metric}
    every_step = {"max_steps": 5, "eval_steps": 1, "save_steps": 1, "logging_steps": 1}
    job = OfflineJob(
        tmp_path / "job",
        base,
        Stage.SFT,
        validation_data={"path": str(validation)},
        learning_rate=0.3,  # so that it gets worse
        arguments=every_step | best | {"lr_scheduler_type": "constant"},
    )

    result = job.run()

    values = [entry[f"eval_{metric}"] for entry in job.metrics() if f"eval_{metric}" in entry][:5]
    chosen = (min if metric == "loss" else max)(values)
    step = values.index(chosen) + 1
    assert chosen != values[-1]
    finished, checkpoint = (
        load_file(folder / "model.safetensors")
        for folder in (job.folder / result["model_dir"], job.folder / f"output/checkpoint-{step}")
    )
    assert all(torch.equal(finished[name], checkpoint[name]) for name in checkpoint)


def test_the_accuracy_is_the_share_of_trained_tokens_that_the_model_would_have_chosen(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = OfflineJob(tmp_path, base, Stage.SFT, rows=rows_of(Stage.SFT, 11))
    trainer = job.trainer(monkeypatch)
    model = trainer.model.train()
    tokens = []
    for row, shift in ((0, 0), (10, 1)):  # the model's own choices, and others
        batch = trainer.data_collator([trainer.train_dataset[row]])
        logits = model(batch["input_ids"], batch["attention_mask"]).logits[:, :-1]
        answer = (logits.argmax(-1) + shift) % logits.shape[-1]
        trained = batch["labels"][:, 1:] != -100
        batch["labels"][:, 1:][trained] = answer[trained]
        trainer.compute_loss(model, batch)
        tokens.append(int(trained.sum()))
    logs = {"loss": 1.0}

    trainer.log(logs)

    assert tokens[0] != tokens[1]
    assert logs["accuracy"] == pytest.approx(tokens[0] / sum(tokens))


def test_kto_counts_rows_and_averages_kl_over_micro_batches(base: Path, tmp_path: Path) -> None:
    arguments = {"per_device_train_batch_size": 1, "logging_steps": 2}
    job = OfflineJob(tmp_path, base, Stage.KTO, batch_size=4, arguments=arguments)

    job.run()

    entry = job.metrics()[-1]
    assert entry["count/chosen"] + entry["count/rejected"] in (4, 8)
    assert entry["rewards/margins"] == pytest.approx(
        entry["rewards/chosen"] - entry["rewards/rejected"]
    )


@pytest.mark.parametrize("stage", [Stage.DPO, Stage.KTO])
def test_an_adapter_is_compared_with_its_base(stage: Stage, base: Path, tmp_path: Path) -> None:
    job = OfflineJob(tmp_path, base, stage, method="lora", arguments={"max_steps": 1})

    result = job.run()

    assert result["kind"] == "lora"
    first = job.metrics()[0]
    assert first.get("rewards/margins", 0.0) == pytest.approx(0.0, abs=1e-6)
    assert first["loss"] == pytest.approx(math.log(2) if stage is Stage.DPO else 0.5)


def test_only_the_named_layers_of_a_frozen_model_change(base: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    arguments = {"freeze_trainable_layers": 1, "max_steps": 2, "save_strategy": "no"}
    job = OfflineJob(tmp_path, base, Stage.DPO, method="freeze", arguments=arguments)

    result = job.run()

    before = load_file(base / "model.safetensors")
    after = load_file(tmp_path / result["model_dir"] / "model.safetensors")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    layers = json.loads((base / "config.json").read_bytes())["num_hidden_layers"]
    assert changed
    assert all(f"layers.{layers - 1}." in name for name in changed)


@pytest.mark.parametrize("native", [True, False])
def test_weights_that_the_processor_emulates_are_computed_in_float32(
    native: bool, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    half = tmp_path / "half"
    AutoModelForCausalLM.from_pretrained(base).to(torch.bfloat16).save_pretrained(half)
    AutoTokenizer.from_pretrained(base).save_pretrained(half)
    monkeypatch.setattr("services.trainer.offline.training.has_native_bfloat16", lambda: native)
    job = OfflineJob(tmp_path / "job", half, Stage.SFT, method="lora")
    told: list[str] = []
    monkeypatch.setattr(job.context.reporter, "message", lambda text, *_, **__: told.append(text))

    model = job.trainer(monkeypatch).model

    frozen = {each.dtype for each in model.parameters() if not each.requires_grad}
    assert frozen == {torch.bfloat16 if native else torch.float32}
    assert ("computing in float32: this processor only emulates bfloat16" in told) is not native
