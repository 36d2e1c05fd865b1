"""What one update does to the weights."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from services.trainer.errors import Diverged
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.protocol import Export, MeasureBatch, Probe
from tests.support.models.permuted_model import permute_model
from tests.support.models.tiny_parts import build_model, build_tokenizer
from tests.support.training.learning import drawn_batch
from tests.support.training.updates import update, weights


def changed(batch: TrainingBatch, **changes: Any) -> TrainingBatch:
    return TrainingBatch(tuple(TrainingSequence(**{**vars(s), **changes}) for s in batch.sequences))


def test_dapo_step_matches_a_plain_implementation(base: Path, learn: Any) -> None:
    batch = drawn_batch()
    learner, metrics = learn("reinforcement", batch)

    model = AutoModelForCausalLM.from_pretrained(base)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95), weight_decay=0.01)
    losses = []
    for number, sequence in enumerate(batch.sequences):
        token_ids = torch.from_numpy(sequence.token_ids).long()
        logits = model(input_ids=token_ids[None]).logits[0, :-1]
        log_probs = logits.log_softmax(-1).gather(-1, token_ids[1:, None])[:, 0]
        sampler = torch.from_numpy(sequence.sampler_log_probs)[1:]
        correction = (log_probs.detach() - sampler).exp().clamp(max=2.0)
        advantage = 1.5 if number % 4 == 0 else -0.5
        ratio = (log_probs - log_probs.detach()).exp()
        mask = torch.from_numpy(sequence.mask)[1:]
        losses.append((-advantage * ratio * correction)[mask])
    loss = torch.cat(losses).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert metrics["grad_norm"] == pytest.approx(float(norm), rel=1e-4)
    plain = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(weights(learner), plain, rtol=0, atol=1e-4)


def test_tool_tokens_are_not_trained_on(learn: Any) -> None:
    batch = drawn_batch()
    noise = [
        np.where(s.mask, s.sampler_log_probs, -9.0).astype(np.float32) for s in batch.sequences
    ]
    other = TrainingBatch(
        tuple(
            TrainingSequence(**{**vars(s), "sampler_log_probs": each})
            for s, each in zip(batch.sequences, noise, strict=True)
        )
    )
    one, metrics = learn("reinforcement", batch)
    two, _ = learn("reinforcement", other)
    torch.testing.assert_close(weights(one), weights(two), rtol=0, atol=0)
    assert metrics["trained_tokens"] == sum(int(s.mask.sum()) for s in batch.sequences)


def test_rewarded_tokens_become_more_probable(learn: Any, tmp_path: Path) -> None:
    batch = drawn_batch()
    good = batch.sequences[0].token_ids.tolist()
    bad = batch.sequences[1].token_ids.tolist()
    learner, _ = learn("reinforcement", batch, learning_rate=1e-6)
    before = learner.answer(Probe(token_ids=[good, bad])).log_probs
    learner, _ = learn("reinforcement", batch)
    after = learner.answer(Probe(token_ids=[good, bad])).log_probs
    assert sum(after[0]) > sum(before[0])
    assert sum(after[1]) < sum(before[1])


def test_equal_rewards_give_no_gradient(learn: Any) -> None:
    _, metrics = learn("reinforcement", changed(drawn_batch(), reward=1.0))
    assert metrics["policy_loss"] == 0
    assert metrics["grad_norm"] == 0


def test_short_batch_takes_fewer_steps_than_mini_batches(learn: Any) -> None:
    _, metrics = learn("reinforcement", drawn_batch(sequences=2), mini_batches=4)
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=0.5)


def test_weights_stay_intact_when_the_loss_is_nan(learn: Any, tmp_path: Path) -> None:
    learner, _ = learn("reinforcement", drawn_batch())
    before = weights(learner)
    with pytest.raises(Diverged):
        update(learner, tmp_path, changed(drawn_batch(), reward=float("nan")), step=1)
    torch.testing.assert_close(weights(learner), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reinforcement", {"mask_truncated": True}),
        ("reinforcement", {"loss": {"objective": "clip_cov"}, "mini_batches": 2}),
        ("reinforcement", {"loss": {"objective": "kl_cov", "anchor": "sampler"}}),
        ("reinforcement", {"advantage": "reinforce++", "loss": {"kl": {"coefficient": 0.1}}}),
        ("ppo", {"epochs": 2}),
        ("distillation", {}),
    ],
)
def test_metrics_of_a_batch_without_a_token_to_train_on_are_finite(
    learn: Any, base: Path, method: str, settings: dict[str, Any]
) -> None:
    masked = TrainingBatch(
        tuple(replace(each, mask=np.zeros_like(each.mask)) for each in drawn_batch().sequences)
    )
    if method == "distillation":
        settings = {"teacher": base}

    _, metrics = learn(method, masked, **settings)

    assert metrics["trained_tokens"] == 0
    assert [name for name, value in metrics.items() if not math.isfinite(value)] == []


def test_critic_learns_the_expected_reward(learn: Any, tmp_path: Path) -> None:
    for kind in ("shared", "separate"):
        critic = {"kind": kind, "learning_rate": 3e-2, "clip": None}
        batch = changed(drawn_batch(), reward=1.0)
        learner, first = learn("ppo", batch, critic=critic, learning_rate=1e-6)
        for step in range(1, 8):
            last = update(learner, tmp_path, batch, step).metrics
        assert last["value_loss"] < first["value_loss"] / 2, kind
        assert last["value_mean"] > 0.3, kind


def test_critic_of_truncated_responses_converges_to_their_reward(
    learn: Any, tmp_path: Path
) -> None:
    critic = {"kind": "shared", "learning_rate": 3e-2, "clip": None}
    batch = changed(drawn_batch(), reward=-1.0)
    learner, _ = learn("ppo", batch, critic=critic, learning_rate=1e-6)
    for step in range(1, 40):
        last = update(learner, tmp_path, batch, step).metrics
    assert last["value_mean"] == pytest.approx(-1.0, abs=0.15)


def test_student_approaches_its_teacher(base: Path, learn: Any, tmp_path: Path) -> None:
    _, itself = learn("distillation", drawn_batch(), teacher=base)
    assert itself["loss"] == pytest.approx(0.0, abs=1e-6)
    learner, first = learn("distillation", drawn_batch(top_k=3), beta=0.0)
    for step in range(1, 5):
        last = update(learner, tmp_path, drawn_batch(top_k=3), step).metrics
    assert last["loss"] < first["loss"]


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_a_teacher_that_numbers_its_tokens_otherwise_teaches_the_same(
    base: Path, learn: Any, tmp_path: Path, beta: float
) -> None:
    teacher, renumbered = tmp_path / "teacher", tmp_path / "renumbered"
    shutil.copytree(base, teacher)
    tokenizer = build_tokenizer()
    build_model(tokenizer, seed=7).save_pretrained(teacher)
    permute_model(teacher, renumbered)

    plain, expected = learn("distillation", drawn_batch(), teacher=teacher, beta=beta)
    mapped, found = learn("distillation", drawn_batch(), teacher=renumbered, beta=beta)

    assert expected["loss"] > 1e-3
    for name in ("loss", "grad_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
    torch.testing.assert_close(weights(mapped), weights(plain), rtol=0, atol=1e-5)


@pytest.mark.parametrize("teacher", ["itself", "elsewhere"])
def test_measure_returns_the_loss_without_an_update(
    base: Path, learn: Any, tmp_path: Path, teacher: str
) -> None:
    batch = drawn_batch() if teacher == "itself" else drawn_batch(top_k=3)
    settings = {"teacher": base} if teacher == "itself" else {}
    learner, _ = learn("distillation", batch, **settings)
    before = weights(learner).clone()
    measured = [
        learner.answer(MeasureBatch(batch=tmp_path / "batch.npz")).metrics for _ in range(2)
    ]
    assert torch.equal(weights(learner), before)
    after = update(learner, tmp_path, batch, step=1).metrics
    assert measured[0] == measured[1]
    assert measured[0]["entropy"] > 0
    for name in ("loss", "entropy", "log_prob_mean"):
        # A teacher equal to the student has a loss of 0, up to rounding.
        assert measured[0][name] == pytest.approx(after[name], rel=1e-4, abs=1e-6)


def test_reference_of_a_continued_adapter_is_the_model_that_training_started_with(
    learn: Any, tmp_path: Path
) -> None:
    lora = {"training_type": "lora", "loss": {"kl": {"coefficient": 0.1}}}
    learner, _ = learn("reinforcement", drawn_batch(), learning_rate=1e-2, **lora)
    moved = update(learner, tmp_path, drawn_batch(), 1).metrics
    learner.answer(Export(folder=tmp_path / "adapter"))
    continued, first = learn("reinforcement", drawn_batch(), adapter=tmp_path / "adapter", **lora)
    second = update(continued, tmp_path, drawn_batch(), 1).metrics
    assert moved["kl"] > 1e-5
    assert first["kl"] == pytest.approx(0.0, abs=1e-8)
    assert second["kl"] > 1e-8


def test_reference_of_a_new_adapter_is_the_base(learn: Any, tmp_path: Path) -> None:
    learner, first = learn(
        "reinforcement", drawn_batch(), training_type="lora", loss={"kl": {"coefficient": 0.1}}
    )
    second = update(learner, tmp_path, drawn_batch(), 1).metrics
    assert first["kl"] == pytest.approx(0.0, abs=1e-9)
    assert second["kl"] > 0
