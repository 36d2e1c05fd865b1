"""Rows that are packed or padded, against the library's own computation of each row by itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import Stage
from services.trainer.forward import output_layer
from services.trainer.offline.library import sequence_forward
from tests.support.training.offline import OfflineJob

PACKED: dict[str, Any] = {"packing": True}


def batch_of(trainer: Any) -> Any:
    return trainer.data_collator([trainer.train_dataset[n] for n in range(2)])


def learned(trainer: Any, batch: Any) -> tuple[float, list[torch.Tensor]]:
    """The loss of a batch as the trainer computes it, and its gradients."""
    model = trainer.model.train()
    model.zero_grad()
    count = trainer._get_num_items_in_batch([batch], torch.device("cpu"))
    loss = trainer.compute_loss(model, dict(batch), num_items_in_batch=count)
    loss.backward()
    return loss.item(), [each.grad.clone() for each in model.parameters() if each.grad is not None]


def each_alone(trainer: Any, batch: Any) -> tuple[float, list[torch.Tensor]]:
    """The mean loss of the labels of all sequences, each computed by itself by transformers."""
    model = AutoModelForCausalLM.from_pretrained(trainer.model.config._name_or_path)
    model.load_state_dict(trainer.model.state_dict())
    parts = []
    for ids, labels, mask, positions in rows_of_batch(batch):
        starts = [n for n, place in enumerate(positions) if place == 0]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            if mask[start]:
                found = model(input_ids=ids[None, start:end]).logits[0, :-1].log_softmax(-1)
                targets = labels[start + 1 : end]
                kept = targets != -100
                parts.append(-found.gather(-1, targets.clamp(min=0)[:, None])[:, 0][kept])
    loss = torch.cat(parts).mean()
    loss.backward()
    return loss.item(), [each.grad for each in model.parameters()]


def rows_of_batch(batch: Any) -> Any:
    ids, labels = batch["input_ids"], batch["labels"]
    if "position_ids" in batch:
        places = torch.zeros_like(ids)
        places[:, : batch["position_ids"].shape[1]] = batch["position_ids"]
        return zip(ids, labels, torch.ones_like(ids), places, strict=True)
    lengths = batch["attention_mask"].sum(-1)
    rows = zip(ids, labels, lengths.tolist(), strict=True)
    return [(a[:n], b[:n], [1] * n, range(n)) for a, b, n in rows]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({}, False),
        ({}, True),
        (PACKED, False),
        ({"neat_packing": True}, False),
        ({**PACKED, "train_on_prompt": True}, False),
    ],
    ids=["padded", "in parts", "packed", "neatly packed", "packed with prompts"],
)
def test_a_batch_has_the_loss_and_gradients_of_its_sequences_alone(
    arguments: dict[str, Any],
    parts: bool,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if parts:
        monkeypatch.setattr(output_layer, "MAX_LOGITS", 265 * 3)
    job = OfflineJob(tmp_path, base, Stage.SFT, arguments=arguments, max_seq_len=48)
    trainer = job.trainer(monkeypatch)
    batch = batch_of(trainer)
    expected, gradients = each_alone(trainer, batch)

    loss, found = learned(trainer, batch)

    assert trainer.padded is None
    assert loss == pytest.approx(expected, abs=1e-6)
    for one, other in zip(found, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_reward_model_is_computed_as_its_padded_rows(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, rows = (
        OfflineJob(tmp_path / name, base, Stage.RM, batch_size=4) for name in ("packed", "rows")
    )
    trainer = packed.trainer(monkeypatch)
    batch = batch_of(trainer)
    monkeypatch.setattr(sequence_forward, "pack_attention", lambda _: "it has recurrent layers")
    padding = rows.trainer(monkeypatch)
    with torch.no_grad():
        for one, other in zip(padding.model.parameters(), trainer.model.parameters(), strict=True):
            one.copy_(other)

    for each in (trainer, padding):
        each.model.v_head.dropout = torch.nn.Identity()  # TRL drops a tenth at random

    (loss, gradients), (expected, others) = (learned(each, batch) for each in (trainer, padding))

    assert (trainer.padded, padding.padded) == (None, "it has recurrent layers")
    assert int((batch["attention_mask"] == 0).sum()) > 0
    assert loss == pytest.approx(expected, abs=1e-6)
    for one, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_padding_that_a_model_needs_changes_no_loss_and_is_counted(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"logging_steps": 1}
    packed = OfflineJob(tmp_path / "packed", base, Stage.SFT, arguments=arguments)
    packed.run()
    monkeypatch.setattr(sequence_forward, "pack_attention", lambda _: "it has recurrent layers")
    padded = OfflineJob(tmp_path / "padded", base, Stage.SFT, arguments=arguments)
    padded.run()

    assert padded.losses() == pytest.approx(packed.losses(), abs=1e-5)
    shares = [[row["real_token_share"] for row in job.metrics()[:4]] for job in (packed, padded)]
    assert shares[0] == [1.0] * 4
    assert all(0.5 < each < 1.0 for each in shares[1])


def test_a_compiled_model_has_the_same_losses(base: Path, tmp_path: Path) -> None:
    """By torch's compiler without a back end, which needs a C++ compiler on CPUs."""
    compiled = {"torch_compile": True, "torch_compile_backend": "eager"}
    plain, traced = (
        OfflineJob(tmp_path / str(n), base, Stage.SFT, arguments={"logging_steps": 1, **changes})
        for n, changes in enumerate(({}, compiled))
    )

    plain.run()
    traced.run()

    assert traced.losses() == pytest.approx(plain.losses(), abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "problem", "reason"),
    [
        ({}, "it has recurrent layers", "it has recurrent layers"),
        ({"use_dft_loss": True}, None, "use_dft_loss is a loss of whole rows"),
        ({"label_smoothing_factor": 0.1}, None, "label_smoothing_factor is a loss"),
    ],
)
def test_packing_is_refused_where_neighbors_would_influence_each_other(
    arguments: dict[str, Any],
    problem: str | None,
    reason: str,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequence_forward, "pack_attention", lambda _: problem)
    job = OfflineJob(tmp_path, base, Stage.SFT, arguments={**PACKED, **arguments}, max_seq_len=48)

    with pytest.raises(InvalidRequest, match=f"rows that are kept apart: {reason}"):
        job.run()
