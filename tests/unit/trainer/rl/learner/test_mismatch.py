"""What an update tells of the learner before it: mismatch and token values."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from services.contracts.training.recipes import PpoRecipe, Recipe
from services.trainer.rl.batch import TokenValues, TrainingBatch
from services.trainer.rl.learner.learner import Learner
from services.trainer.rl.learner.micro_batches import TrainedTokens
from services.trainer.rl.learner.mismatch import sampler_mismatch
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import Probe
from tests.support.training.learning import drawn_batch, learner_spec
from tests.support.training.updates import weights


def probed(base: Path, batch: TrainingBatch, folder: Path, method: str) -> list[Any]:
    """The log-probabilities of a batch's tokens before any update; 0 of the first tokens."""
    spec = learner_spec(base, method, folder)
    learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
    ids = [each.token_ids.tolist() for each in batch.sequences]
    answer = learner.answer(Probe(token_ids=ids))
    return [np.array([0.0, *each], np.float32) for each in answer.log_probs]


def test_the_mismatch_of_sampler_and_learner_is_measured_over_sampled_tokens(
    base: Path, learn: Any, tmp_path: Path
) -> None:
    batch = drawn_batch()
    own = probed(base, batch, tmp_path, "reinforcement")
    first, *others = batch.sequences
    # One token of the first sequence is off by .5 nats, the tokens of the last are no engine's.
    off = own[0] - 0.5 * (np.arange(len(own[0])) == int(first.mask.argmax()))
    sampled = [off, *own[1:-1], own[-1] + 3.0]
    unsampled = np.full(len(own[-1]), -1, np.int32)
    versions = [*(each.policy_versions for each in batch.sequences[:-1]), unsampled]
    sequences = [
        replace(each, sampler_log_probs=given.astype(np.float32), policy_versions=version)
        for each, given, version in zip(batch.sequences, sampled, versions, strict=True)
    ]

    _, metrics = learn("reinforcement", TrainingBatch(tuple(sequences)))

    counted = sum(int(each.mask.sum()) for each in [first, *others[:-1]])
    assert metrics["sampler_difference_mean"] == pytest.approx(0.5 / counted, abs=1e-5)
    assert metrics["sampler_difference_p999"] == pytest.approx(0.5, abs=1e-4)
    # exp(d) - 1 - d of d = .5
    assert metrics["sampler_kl"] == pytest.approx(0.1487 / counted, abs=1e-5)


def test_the_divergence_of_sampler_and_learner_is_one_over_what_the_sampler_drew() -> None:
    learner, sampler = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5])
    # Each of two tokens was drawn once, as often as the sampler expects.
    one = drawn_batch(sequences=1).sequences[0]
    mask = np.arange(len(one.mask)) < 0
    mask[4:6] = True
    log_probs = np.zeros(len(mask), np.float32)
    log_probs[4:6] = sampler.log().numpy()
    drawn = replace(one, mask=mask, sampler_log_probs=log_probs)

    found = sampler_mismatch(learner.log(), TrainedTokens.of(TrainingBatch((drawn,))))

    exact = float((sampler * (sampler / learner).log()).sum())
    assert found["sampler_kl"] == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        {"objective": "dppo_tv"},
        {"anchor": "sampler", "token_mask": [0.5, 5.0], "kl": {"coefficient": 0.1}},
    ],
)
def test_what_was_computed_after_a_step_is_not_told_as_before_the_update(
    base: Path, learn: Any, tmp_path: Path, loss: dict[str, Any]
) -> None:
    batch = drawn_batch()
    own = probed(base, batch, tmp_path, "reinforcement")
    exact = TrainingBatch(
        tuple(
            replace(each, sampler_log_probs=log_probs)
            for each, log_probs in zip(batch.sequences, own, strict=True)
        )
    )

    _, metrics = learn("reinforcement", exact, mini_batches=4, learning_rate=1e-2, loss=loss)

    for name in ("sampler_kl", "sampler_difference_mean", "sampler_difference_p999"):
        assert metrics[name] == pytest.approx(0.0, abs=1e-4), name
    found = TokenValues.take(tmp_path / "batch.npz")
    assert found is not None
    parts = found.split([int(s.mask.sum()) for s in batch.sequences])
    known = [not np.isnan(part[:, 0]).any() for part in parts]
    assert sum(known) == len(parts) // 4
    for sequence, log_probs, part, is_known in zip(batch.sequences, own, parts, known, strict=True):
        if is_known:
            np.testing.assert_allclose(part[:, 0], log_probs[sequence.mask], atol=1e-4)
        assert np.isfinite(part[:, 1:]).all()


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reinforcement", {}),
        ("reinforcement", {"mini_batches": 2}),
        ("ppo", {"epochs": 2, "whiten_advantages": False}),
    ],
)
def test_update_writes_token_values_beside_the_batch(
    method: str, settings: dict[str, Any], base: Path, learn: Any, tmp_path: Path
) -> None:
    batch = drawn_batch()
    own = probed(base, batch, tmp_path, method)

    learn(method, batch, **settings)

    found = TokenValues.take(tmp_path / "batch.npz")
    assert found is not None
    parts = found.split([int(s.mask.sum()) for s in batch.sequences])
    for sequence, values, log_probs in zip(batch.sequences, parts, own, strict=True):
        np.testing.assert_allclose(values[:, 0], log_probs[sequence.mask], atol=1e-4)
        assert (values[:, 1] > 0).all()
    advantages = [values[0, 2] for values in parts if len(values)]
    if method == "reinforcement":
        assert advantages == pytest.approx(
            [1.5, -0.5, -0.5, -0.5] * (len(advantages) // 4), rel=1e-3
        )
    assert TokenValues.take(tmp_path / "batch.npz") is None


RECIPES = [*(("reinforcement", each.value) for each in Recipe), ("ppo", PpoRecipe.PPO.value)]


@pytest.mark.parametrize(("method", "recipe"), RECIPES)
def test_a_recipe_learns_otherwise_from_what_older_weights_found_more_probable(
    learn: Any, method: str, recipe: str
) -> None:
    def learned(nats: float, **settings: Any) -> torch.Tensor:
        shifts = [np.where(each.mask, nats, 0.0).astype(np.float32) for each in drawn]
        batch = TrainingBatch(
            tuple(
                replace(each, sampler_log_probs=each.sampler_log_probs + shift)
                for each, shift in zip(drawn, shifts, strict=True)
            )
        )
        learner, _ = learn(method, batch, recipe=recipe, mini_batches=2, **settings)
        return weights(learner)

    drawn = drawn_batch().sequences
    assert not torch.equal(learned(0.0, max_staleness=1), learned(0.1, max_staleness=1))
    uncorrected = {"max_staleness": 1, "loss": {"anchor": "old", "tis_cap": None}}
    assert torch.equal(learned(0.0, **uncorrected), learned(0.1, **uncorrected))
