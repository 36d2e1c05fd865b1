"""How a batch is packed, for any lengths and processes; that an update does not depend on it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.forward import output_layer
from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner import model as language_model
from services.trainer.rl.learner.micro_batches import (
    Layout,
    TrainedTokens,
    balance,
    micro_batches,
    pack,
)
from tests.support.training.learning import drawn_batch, in_branches
from tests.support.training.updates import weights


@given(
    st.lists(st.integers(1, 60), max_size=20),
    st.builds(Layout, st.integers(1, 100), st.booleans()),
    st.integers(1, 5),
)
def test_each_sequence_counts_once_and_processes_get_equal_shares(
    lengths: list[int], layout: Layout, processes: int
) -> None:
    plan = balance(pack(range(len(lengths)), lengths, layout), processes)
    counted = sorted(each for group, real in plan if real for each in group)
    assert counted == list(range(len(lengths)))
    assert len(plan) % processes == 0
    for group, _ in plan:
        inside = [lengths[each] for each in group]
        computed = len(group) * max(inside) if layout.padded else sum(inside)
        assert computed <= layout.limit or len(group) == 1


@given(st.integers(0, 5), st.integers(1, 3), st.integers(20, 200))
def test_micro_batches_hold_trained_tokens_and_their_predicting_states(
    seed: int, processes: int, limit: int
) -> None:
    tokens = TrainedTokens.of(drawn_batch(seed))
    expected = torch.cat(
        [torch.from_numpy(each.token_ids[each.mask]).long() for each in tokens.sequences]
    )
    found = torch.full_like(expected, -1)
    for rank in range(processes):
        for micro in micro_batches(
            tokens,
            range(len(tokens.sequences)),
            layout=Layout(limit),
            rank=rank,
            processes=processes,
            device=torch.device("cpu"),
        ):
            assert torch.equal(micro.token_ids[micro.states + 1], micro.targets)
            assert sum(micro.lengths) == len(micro.token_ids) == micro.computed
            if micro.real:
                found[micro.tokens] = micro.targets
    assert torch.equal(found, expected)


def test_training_on_the_first_token_is_refused() -> None:
    batch = drawn_batch(sequences=1)
    batch.sequences[0].mask[0] = True
    with pytest.raises(ValueError, match="first token"):
        TrainedTokens.of(TrainingBatch(batch.sequences))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reinforcement", {}),
        ("reinforcement", {"loss": {"aggregation": "seq-mean-token-mean", "ratio": "sequence"}}),
        ("reinforcement", {"loss": {"aggregation": "seq-mean-token-sum-norm"}}),
        ("reinforcement", {"mini_batches": 2, "loss": {"kl": {"coefficient": 0.1}}}),
        (
            "reinforcement",
            {
                "advantage": "rloo",
                "loss": {
                    "objective": "cispo",
                    "anchor": "sampler",
                    "token_mask": [0.5, 5.0],
                    "sequence_mask": {"ratio": "product", "low": 0.01, "high": 100.0},
                    "off_policy_mask": 0.2,
                    "kl": {"coefficient": 0.1, "estimator": "unbiased"},
                },
            },
        ),
        ("reinforcement", {"loss": {"objective": "sapo", "tis_level": "sequence"}}),
        ("reinforcement", {"loss": {"objective": "clip_cov", "covariance": {"low": 0.0}}}),
        ("reinforcement", {"loss": {"ratio": "sequence_token"}}),
        ("ppo", {"epochs": 2, "critic": {"kind": "shared"}, "loss": {"entropy_bonus": 0.01}}),
        ("ppo", {"mini_batches": 2, "loss": {"kl": {"coefficient": 0.1, "to": "reward"}}}),
        ("distillation", {"beta": 0.5, "temperature": 2.0}),
    ],
)
def test_step_does_not_depend_on_micro_batches(
    method: str, settings: dict[str, Any], base: Path, learn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if method == "distillation":
        settings = settings | {"teacher": base}
    whole, at_once = learn(method, drawn_batch(), **settings)
    monkeypatch.setattr(output_layer, "MAX_LOGITS", 270 * 7)
    packed, in_parts = learn(method, drawn_batch(), micro_batch_tokens=64, **settings)
    for name in at_once.keys() - {"tokens_per_second", "forward_backward_seconds"}:
        if not name.endswith("seconds"):
            assert in_parts[name] == pytest.approx(at_once[name], rel=1e-3, abs=1e-5), name
    torch.testing.assert_close(weights(whole), weights(packed), rtol=0, atol=1e-4)


@pytest.mark.parametrize("method", ["reinforcement", "ppo"])
def test_step_without_padding_is_that_of_padded_sequences(
    method: str, learn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, without = learn(method, drawn_batch())
    reason = "its attention cannot be exchanged"
    monkeypatch.setattr(language_model, "pack_attention", lambda *_, **__: reason)
    padded, padding = learn(method, drawn_batch())

    assert (packed.padded, padded.padded) == (None, reason)
    assert without["real_token_share"] == 1.0
    assert 0.3 < padding["real_token_share"] < 0.95
    for name in ("loss", "grad_norm", "entropy"):
        assert without[name] == pytest.approx(padding[name], rel=1e-6, abs=1e-6), name
    torch.testing.assert_close(weights(packed), weights(padded), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": {"aggregation": "seq-mean-token-mean"}},
        {"mini_batches": 2, "loss": {"aggregation": "seq-mean-token-sum-norm"}},
        {"loss": {"kl": {"coefficient": 0.1, "to": "reward"}}},
    ],
)
def test_a_sample_in_several_sequences_counts_as_one(settings: dict[str, Any], learn: Any) -> None:
    whole, at_once = learn("reinforcement", drawn_batch(), **settings)
    branched, in_parts = learn("reinforcement", in_branches(drawn_batch()), **settings)
    for name in ("loss", "advantage_mean", "grad_norm", "trained_tokens"):
        assert in_parts[name] == pytest.approx(at_once[name], rel=1e-3, abs=1e-5), name
    torch.testing.assert_close(weights(whole), weights(branched), rtol=0, atol=1e-4)
