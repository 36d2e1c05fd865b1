"""Evaluations count every row and token of the validation data once, however batches divide it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from services.contracts.llamafactory.names import Stage
from tests.support.training.offline import OfflineJob, rows_of

OF_BATCHES = {"eval_loss", "eval_kl"}
"""Of KTO: its reference point is the mean divergence of a batch, by its definition."""


def unequal_rows(stage: Stage, count: int) -> list[dict[str, Any]]:
    """Rows of which the last has a much longer answer."""
    rows = rows_of(stage, count)
    row, long = rows[-1], "many words " * 5
    if "preferred_output" in row:
        row["preferred_output"][-1]["content"] = long
    elif "messages" in row:
        row["messages"][-1]["content"] = long
    else:
        row["text"] = "short"
    return rows


def evaluated(trainer: Any, batch: int) -> dict[str, float]:
    trainer.args.per_device_eval_batch_size = batch
    found = trainer.evaluate()
    return {
        name: value
        for name, value in found.items()
        if not name.endswith(("_runtime", "_per_second", "_time")) and name != "epoch"
    }


def disturbed(trainer: Any) -> Any:
    """The trainer with other weights than the reference's."""
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return trainer


def validated_job(folder: Path, base: Path, stage: Stage, **changes: Any) -> OfflineJob:
    folder.mkdir(parents=True, exist_ok=True)
    validation = folder / "validation.jsonl"
    rows = changes.pop("validation", None) or unequal_rows(stage, 7)
    validation.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return OfflineJob(folder, base, stage, validation_data={"path": str(validation)}, **changes)


@pytest.mark.parametrize(
    ("stage", "loss", "names"),
    [
        (Stage.SFT, None, {"eval_accuracy"}),
        (Stage.PT, None, set()),
        (Stage.DPO, "sigmoid", {"eval_rewards/accuracies", "eval_rewards/margins"}),
        (Stage.DPO, "orpo", {"eval_sft_loss", "eval_odds_ratio_loss", "eval_logps/chosen"}),
        (Stage.DPO, "simpo", {"eval_rewards/margins"}),
        (Stage.KTO, None, {"eval_rewards/margins", "eval_count/chosen"}),
        (Stage.RM, None, {"eval_rewards/accuracies", "eval_rewards/chosen"}),
    ],
)
def test_the_batch_of_an_evaluation_changes_none_of_its_numbers(
    stage: Stage,
    loss: str | None,
    names: set[str],
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = {} if loss is None else {"pref_loss": loss, "pref_beta": 1.0}
    job = validated_job(tmp_path, base, stage, stage_arguments=chosen)
    trainer = disturbed(job.trainer(monkeypatch))

    whole, *others = (evaluated(trainer, batch) for batch in (16, 1, 3, 4))

    assert {"eval_loss", *names} <= set(whole)
    left_out = OF_BATCHES if stage is Stage.KTO else set()
    for other in others:
        assert other.keys() == whole.keys()
        for name in whole.keys() - left_out:
            assert other[name] == pytest.approx(whole[name], rel=1e-4, abs=1e-6), name


def test_the_loss_and_the_accuracy_of_an_evaluation_are_means_over_all_its_tokens(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = validated_job(tmp_path, base, Stage.SFT).trainer(monkeypatch)
    lost, chosen = [], []
    for row in trainer.eval_dataset:
        ids, labels = (torch.tensor([row[name]]) for name in ("input_ids", "labels"))
        with torch.no_grad():
            logits = trainer.model.eval()(input_ids=ids).logits[0, :-1].log_softmax(-1)
        trained = labels[0, 1:] != -100
        targets = labels[0, 1:][trained]
        lost.append(-logits[trained].gather(-1, targets[:, None])[:, 0])
        chosen.append(logits[trained].argmax(-1) == targets)

    found = evaluated(trainer, 2)

    assert len({len(each) for each in lost}) > 1
    assert found["eval_loss"] == pytest.approx(torch.cat(lost).mean().item(), rel=1e-5)
    assert found["eval_accuracy"] == pytest.approx(torch.cat(chosen).float().mean().item())


@pytest.mark.parametrize("length", [104, 100])  # rows are padded to a multiple of eight tokens
def test_packing_changes_neither_the_accuracy_nor_what_is_evaluated(
    length: int, base: Path, tmp_path: Path
) -> None:
    """With prompts, whose first tokens nothing predicts."""
    plain, packed = (
        validated_job(
            tmp_path / str(packing),
            base,
            Stage.SFT,
            rows=rows_of(Stage.SFT, 4),
            validation=rows_of(Stage.SFT, 4),
            batch_size=4,
            max_seq_len=length,
            learning_rate=0.03,
            arguments={
                **{"packing": packing, "train_on_prompt": True, "max_steps": 3},
                **{"eval_steps": 1, "logging_steps": 1},
            },
        )
        for packing in (False, True)
    )

    plain.run()
    packed.run()

    for name in ("loss", "accuracy", "eval_loss", "eval_accuracy"):
        expected, found = (
            [each[name] for each in job.metrics() if name in each] for job in (plain, packed)
        )
        assert len(found) >= 3
        assert max(expected) > 0
        assert found == pytest.approx(expected, rel=1e-4), name


def test_metrics_of_pairs_are_means_over_pairs_where_micro_batches_differ_in_size(
    base: Path, tmp_path: Path
) -> None:
    """Of five pairs a batch of four and one of one, at a learning rate that changes nothing."""
    arguments = {"per_device_train_batch_size": 4, "logging_steps": 2, "logging_first_step": False}
    settings = {"pref_loss": "simpo", "pref_beta": 1.0}
    changes: dict[str, Any] = {"rows": unequal_rows(Stage.DPO, 5), "learning_rate": 1e-9}
    split, whole = (
        OfflineJob(
            tmp_path / str(size),
            base,
            Stage.DPO,
            stage_arguments=settings,
            batch_size=size,
            arguments=arguments | {"per_device_train_batch_size": size, "logging_steps": steps},
            **changes,
        )
        for size, steps in ((4, 2), (5, 1))
    )

    split.run()
    whole.run()

    found, expected = split.metrics()[-1], whole.metrics()[-1]
    for name in ("rewards/margins", "rewards/accuracies", "logps/chosen"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3), name


def test_asft_trains_its_own_loss_and_can_be_evaluated(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = validated_job(tmp_path, base, Stage.SFT, arguments={"use_asft_loss": True})
    trainer = job.trainer(monkeypatch)
    batch = trainer.data_collator([trainer.train_dataset[number] for number in range(3)])
    model = trainer.model.train()
    labels = batch["labels"][:, 1:]
    logits = model(batch["input_ids"], batch["attention_mask"]).logits[:, :-1]
    each = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    expected = -(each * each.exp())[labels != -100].mean()  # the reference is the model itself

    loss = trainer.compute_loss(model, dict(batch))

    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    one, other = evaluated(trainer, 1), evaluated(trainer, 5)
    assert one["eval_loss"] == pytest.approx(other["eval_loss"], rel=1e-4)
