"""What masks leave out of an update, and the ratio that weighs a divergence."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner.protocol import Probe
from tests.support.training.learning import drawn_batch
from tests.support.training.updates import update, weights

MASKS: list[dict[str, Any]] = [{"token_mask": [0.5, 5.0]}, {"sequence_mask": {"ratio": "product"}}]
CASES = [
    *(("reinforcement", {"anchor": "sampler", **mask}) for mask in MASKS),
    *(("ppo", mask) for mask in (*MASKS, {"off_policy_mask": 1.0})),
]
PENALTIES: list[dict[str, Any]] = [
    *({"kl": {"coefficient": 0.04, "estimator": each}} for each in ("k1", "k2", "k3", "unbiased")),
    {"entropy_bonus": 0.01},
]


def shifted(batch: TrainingBatch, nats: float, reward: float) -> TrainingBatch:
    """The batch, of one reward, of a sampler that found each token ``nats`` more probable."""
    drawn = [np.where(each.mask, each.sampler_log_probs + nats, 0.0) for each in batch.sequences]
    return TrainingBatch(
        tuple(
            replace(each, sampler_log_probs=log_probs.astype(np.float32), reward=reward)
            for each, log_probs in zip(batch.sequences, drawn, strict=True)
        )
    )


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("method", "mask"), CASES)
def test_a_batch_that_a_mask_leaves_out_has_no_gradient(
    learn: Any, tmp_path: Path, method: str, mask: dict[str, Any], penalty: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {"loss": mask | penalty, "learning_rate": 1e-2}
    if method == "ppo":  # each advantage is the reward less the value before the token
        settings |= {"whiten_advantages": False, "gae_lambda": 1.0}
    learner, _ = learn(method, drawn_batch(), **settings)
    metrics = update(learner, tmp_path, shifted(drawn_batch(), 5.0, reward=-50.0), 1).metrics

    assert metrics["masked_fraction"] == 1.0
    assert metrics["policy_loss"] == 0.0
    assert metrics["grad_norm"] == 0.0
    assert metrics["entropy"] > 0  # metrics are of all tokens, masked or not
    assert "kl" not in penalty or metrics["kl"] > 0


@pytest.mark.parametrize("objective", ["clip", "cispo", "dppo_tv", "sapo"])
@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_token_of_an_infinite_ratio_adds_nothing(
    learn: Any, tmp_path: Path, objective: str, mask: dict[str, Any]
) -> None:
    first, *others = drawn_batch().sequences
    kl = {"coefficient": 0.1, "estimator": "unbiased"}
    loss = {"objective": objective, "anchor": "sampler", "kl": kl, **mask}

    def learned(log_prob: float) -> torch.Tensor:
        sampler = first.sampler_log_probs.copy()
        sampler[int(first.mask.argmax())] = log_prob
        batch = TrainingBatch((replace(first, sampler_log_probs=sampler), *others))
        learner, _ = learn("reinforcement", drawn_batch(), loss=loss, learning_rate=1e-2)
        metrics = update(learner, tmp_path, batch, 1).metrics
        assert 0 < metrics["masked_fraction"] < 1
        return weights(learner)

    torch.testing.assert_close(learned(-1000.0), learned(-12.0), rtol=0, atol=0)


def test_unbiased_kl_weighs_tokens_by_the_distribution_that_drew_them(
    learn: Any, tmp_path: Path
) -> None:
    batch = drawn_batch()
    kl = {"coefficient": 0.5, "estimator": "unbiased"}
    loss = {"anchor": "sampler", "kl": kl}
    learner, _ = learn("reinforcement", batch, learning_rate=1e-2, loss=loss)
    ids = [each.token_ids.tolist() for each in batch.sequences]
    now = [
        np.array([0.0, *each], np.float32)
        for each in learner.answer(Probe(token_ids=ids)).log_probs
    ]
    drawn = TrainingBatch(
        tuple(
            replace(each, sampler_log_probs=log_probs - 1)
            for each, log_probs in zip(batch.sequences, now, strict=True)
        )
    )

    metrics = update(learner, tmp_path, drawn, 1).metrics

    assert metrics["kl"] > 1e-4
    penalty = metrics["loss"] - metrics["policy_loss"]
    assert penalty == pytest.approx(0.5 * math.e * metrics["kl"], rel=1e-3)
