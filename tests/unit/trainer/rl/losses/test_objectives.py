"""Objectives and corrections against numbers computed by hand, and their gradients."""

import math

import pytest
import torch
from torch import Tensor

from services.contracts.training.objectives import BY_COVARIANCE, READ_FIELDS, Covariance, Objective
from services.contracts.training.policy_loss import (
    KlEstimator,
    PolicyLoss,
    SequenceRatio,
)
from services.trainer.rl.corrections import off_policy_kept, sequence_log_ratios, within
from services.trainer.rl.learner.token_losses import PolicyTokens, surrogate
from services.trainer.rl.losses import Clipping, kl_estimates
from services.trainer.rl.objectives import (
    cispo_loss,
    clip_covariance_loss,
    covariant_tokens,
    penalized_covariance_loss,
    soft_gated_loss,
    total_variation_loss,
)

SEQUENCE_OF = torch.tensor([0, 0, 1, 1])
NEAR = Clipping(0.2, 0.2)
TEMPERATURES = (1.0, 1.05)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_cispo_clips_the_weight_and_not_the_gradient() -> None:
    log_probs = tensor(0.6, 0.6, 0.1).log().requires_grad_()
    ratios = (log_probs - tensor(0.3, 0.6, 0.2).log()).exp()
    advantages = tensor(1, -1, 2)

    loss = cispo_loss(log_probs, ratios, advantages, Clipping(0.2, 0.28))

    expected = tensor(-1.28 * math.log(0.6), math.log(0.6), -2 * 0.8 * math.log(0.1))
    torch.testing.assert_close(loss.losses, expected)
    (gradient,) = torch.autograd.grad(loss.losses.sum(), log_probs)
    torch.testing.assert_close(gradient, tensor(-1.28, 1.0, -1.6))
    assert loss.clipped_high.tolist() == [True, False, False]
    assert loss.clipped_low.tolist() == [False, False, True]


def test_a_token_out_of_the_region_of_total_variation_is_kept_if_it_comes_back() -> None:
    now, anchor = tensor(0.6, 0.6, 0.6, 0.1), tensor(0.3, 0.45, 0.3, 0.4)
    advantages = tensor(1, 1, -1, -1)

    loss = total_variation_loss(now.log(), anchor.log(), now / anchor, advantages, NEAR)

    torch.testing.assert_close(loss.losses, tensor(0.0, -4 / 3, 2.0, 0.0))
    assert loss.clipped_high.tolist() == [True, False, False, False]
    assert loss.clipped_low.tolist() == [False, False, False, True]


def test_the_soft_gate_has_slope_1_at_ratio_1_and_none_far_from_it() -> None:
    ratios = tensor(1.0, 2.0, 0.5, 60.0).requires_grad_()
    advantages = tensor(1, 1, -1, 1)

    losses = soft_gated_loss(ratios, advantages, TEMPERATURES).losses

    expected = tensor(-2.0, -4 / (1 + math.exp(-1)), 4 / 1.05 / (1 + math.exp(0.525)), -4.0)
    torch.testing.assert_close(losses, expected)
    (gradient,) = torch.autograd.grad(losses.sum(), ratios)
    slope = 4 * math.exp(0.525) / (1 + math.exp(0.525)) ** 2
    torch.testing.assert_close(gradient[[0, 2, 3]], tensor(-1.0, slope, 0.0))


@pytest.mark.parametrize("objective", ["dppo_tv", "sapo"])
def test_gradients_are_those_of_finite_differences(objective: str) -> None:
    anchor, advantages = tensor(-1.0, -0.5, -2.0, -0.1), tensor(1, -1, -1, 1)

    def loss(log_probs: Tensor) -> Tensor:
        ratios = (log_probs - anchor).exp()
        if objective == "sapo":
            return soft_gated_loss(ratios, advantages, TEMPERATURES).losses.sum()
        return total_variation_loss(log_probs, anchor, ratios, advantages, NEAR).losses.sum()

    assert torch.autograd.gradcheck(loss, (tensor(-0.9, -1.5, -0.3, -0.4).requires_grad_(),))


@pytest.mark.parametrize("estimator", list(KlEstimator))
def test_gradients_of_divergences_are_those_of_finite_differences(estimator: KlEstimator) -> None:
    old, reference = tensor(-1.0, -0.4), tensor(-0.7, -1.1)

    def loss(log_probs: Tensor) -> Tensor:
        return kl_estimates(log_probs, old, reference, estimator).sum()

    assert torch.autograd.gradcheck(loss, (tensor(-0.9, -0.5).requires_grad_(),))


@pytest.mark.parametrize(
    ("estimator", "is_exact"),
    [
        (KlEstimator.UNBIASED, True),
        (KlEstimator.K2, True),
        (KlEstimator.K3, False),
        (KlEstimator.K1, False),
    ],
)
def test_the_expected_gradient_is_that_of_the_divergence(
    estimator: KlEstimator, is_exact: bool
) -> None:
    logits = tensor(0.3, -0.2, 1.0).requires_grad_()
    reference = tensor(0.2, 0.5, 0.3).log()
    log_probs = logits.log_softmax(0)
    old = log_probs.detach()

    (exact,) = torch.autograd.grad((log_probs.exp() * (log_probs - reference)).sum(), logits)
    estimates = kl_estimates(logits.log_softmax(0), old, reference, estimator)
    (expected,) = torch.autograd.grad((old.exp() * estimates).sum(), logits)

    assert torch.allclose(expected, exact) is is_exact


def test_masks_of_tokens_and_of_responses() -> None:
    log_ratios = tensor(6.0, 1.0, 0.5, 0.4).log()

    assert within(log_ratios, 0.5, 5.0).tolist() == [False, True, True, False]
    geometric = sequence_log_ratios(log_ratios, SEQUENCE_OF, SequenceRatio.GEOMETRIC).exp()
    product = sequence_log_ratios(log_ratios, SEQUENCE_OF, SequenceRatio.PRODUCT).exp()
    torch.testing.assert_close(geometric, tensor(6, 6, 0.2, 0.2).sqrt())
    torch.testing.assert_close(product, tensor(6, 6, 0.2, 0.2))


def test_responses_that_the_policy_has_left_are_masked_if_they_were_bad() -> None:
    sampler = torch.zeros(4, dtype=torch.float64)
    kept = [
        off_policy_kept(tensor(-0.2, -0.4, 0.1, -0.1), sampler, advantages, SEQUENCE_OF, 0.2)
        for advantages in (tensor(-1, -1, -1, -1), tensor(1, 1, 1, 1))
    ]

    assert [each.tolist() for each in kept] == [[False, False, True, True], [True] * 4]


LOG_PROBS, ADVANTAGES = tensor(-1, -5, -1, -5), tensor(1, 1, -1, -3)
"""Means -3 and -0.5: the covariances are 3, -3, -1 and 5."""


@pytest.mark.parametrize(
    ("objective", "settings", "selected"),
    [
        (Objective.KL_COV, {"share": 0.25}, [False, False, False, True]),
        (Objective.KL_COV, {"share": 0.5}, [True, False, False, True]),
        (Objective.CLIP_COV, {"share": 1.0}, [True, False, False, False]),
        (Objective.CLIP_COV, {"share": 1.0, "high": 6.0}, [True, False, False, True]),
        (Objective.CLIP_COV, {"share": 1.0, "low": 6.0, "high": 7.0}, [False] * 4),
    ],
)
def test_tokens_are_selected_by_their_covariance(
    objective: Objective, settings: dict[str, float], selected: list[bool]
) -> None:
    covariance = Covariance(**settings)

    found = covariant_tokens(LOG_PROBS, ADVANTAGES, covariance, objective)

    assert found.tolist() == selected


def test_as_many_tokens_are_drawn_as_the_share_says_and_the_same_again() -> None:
    log_probs = torch.arange(100, dtype=torch.float64)
    drawn = [
        covariant_tokens(log_probs, log_probs, Covariance(share=0.1, high=1e6), Objective.CLIP_COV)
        for _ in range(2)
    ]

    assert int(drawn[0].sum()) == 10
    assert torch.equal(*drawn)


def test_clip_cov_leaves_selected_tokens_out() -> None:
    ratios = tensor(1.0, 1.5).requires_grad_()

    loss = clip_covariance_loss(ratios, tensor(1, 1), NEAR, torch.tensor([True, False]))

    torch.testing.assert_close(loss.losses, tensor(0.0, -1.2))
    (gradient,) = torch.autograd.grad(loss.losses.sum(), ratios)
    torch.testing.assert_close(gradient, tensor(0.0, 0.0))
    assert loss.clipped_high.tolist() == [False, True]


def test_kl_cov_penalizes_how_far_selected_tokens_moved() -> None:
    log_probs, anchor = tensor(-1, -2).requires_grad_(), tensor(-1.5, -1.0)
    ratios = (log_probs - anchor).exp()

    loss = penalized_covariance_loss(
        log_probs, anchor, ratios, tensor(1, 1), torch.tensor([True, False]), 2.0
    )

    expected = tensor(-math.exp(0.5) + 2 * 0.5, -math.exp(-1))
    torch.testing.assert_close(loss.losses, expected)
    (gradient,) = torch.autograd.grad(loss.losses.sum(), log_probs)
    torch.testing.assert_close(gradient, tensor(-math.exp(0.5) + 2, -math.exp(-1)))


CHANGED = {
    "clip_low": 0.01,
    "clip_high": 0.01,
    "dual_clip": 1.1,
    "gate_temperatures": (3.0, 2.0),
    "covariance.share": 0.5,
    "covariance.low": -9.0,
    "covariance.high": 1.5,
    "covariance.kl": 7.0,
}


def losses_of(objective: Objective, changed: str | None) -> Tensor:
    """The losses of an objective over eight tokens, with a changed field or the defaults, and
    without a check of what goes together."""
    settings = PolicyLoss().model_copy(update={"objective": objective})
    name, _, inner = (changed or "").partition(".")
    if changed and inner:
        covariance = settings.covariance.model_copy(update={inner: CHANGED[changed]})
        settings = settings.model_copy(update={"covariance": covariance})
    elif changed:
        settings = settings.model_copy(update={name: CHANGED[changed]})
    anchor = tensor(0.9, 0.8, 0.7, 0.5, 0.4, 0.05, 0.02, 0.01).log()
    log_probs = anchor + tensor(0.08, -0.9, 0.3, -0.3, 0.5, -0.2, 0.9, 1.5)
    advantages = tensor(2, 2, -2, -2, 1, -1, 1, -1)
    covariant = None
    if objective in BY_COVARIANCE:
        covariant = covariant_tokens(anchor, advantages, settings.covariance, objective)
    ratios, sequence_of = (log_probs - anchor).exp(), torch.zeros(8, dtype=torch.long)
    tokens = PolicyTokens(
        log_probs, anchor, anchor, ratios, advantages, sequence_of, covariant=covariant
    )
    own = (lambda **given: given["ratios"]) if objective is Objective.EXTENSION else None
    return surrogate(settings, tokens, own).losses


@pytest.mark.parametrize("field", CHANGED)
@pytest.mark.parametrize("objective", Objective)
def test_an_objective_reads_the_fields_that_its_settings_may_name(
    objective: Objective, field: str
) -> None:
    is_read = not torch.equal(losses_of(objective, field), losses_of(objective, None))

    assert is_read is (field in READ_FIELDS[objective])


def test_every_field_of_single_objectives_is_tried() -> None:
    # The objective is named by its extension, and is given ratios of the level that was asked for.
    others = {"extension", "ratio"}
    assert frozenset().union(*READ_FIELDS.values()) == CHANGED.keys() | others
