"""The gradient of each objective against finite differences, in float64."""

import pytest
import torch
from torch import Tensor

from services.contracts.training.policy_loss import KlEstimator, RatioLevel
from services.trainer.rl.losses import (
    Clipping,
    clipped_surrogate_loss,
    generalized_jsd,
    importance_ratios,
    k3,
    kl_estimates,
    tis_weights,
    value_loss,
    with_remainder,
)
from services.trainer.rl.objectives import (
    cispo_loss,
    clip_covariance_loss,
    penalized_covariance_loss,
    soft_gated_loss,
    total_variation_loss,
)

NEAR = Clipping(0.2, 0.28)
SEQUENCE_OF = torch.tensor([0, 0, 0, 1, 1, 1])
WEIGHTS = torch.tensor([0.1, 0.2, 0.1, 0.3, 0.2, 0.1], dtype=torch.float64)
ADVANTAGES = torch.tensor([1.0, 1.0, 1.0, -2.0, -2.0, -2.0], dtype=torch.float64)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("level", [RatioLevel.TOKENWISE, RatioLevel.SEQUENCE])
@pytest.mark.parametrize("clipping", [Clipping(0.2, 0.28), Clipping(0.2, 0.28, dual=2.0)])
def test_policy_loss_gradient(level: RatioLevel, clipping: Clipping) -> None:
    old = drawn(6, seed=1).detach()

    def loss(log_probs: Tensor) -> Tensor:
        ratios = importance_ratios(log_probs, old, SEQUENCE_OF, level)
        return (WEIGHTS * clipped_surrogate_loss(ratios, ADVANTAGES, clipping).losses).sum()

    assert torch.autograd.gradcheck(loss, (drawn(6),))


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("level", list(RatioLevel))
@pytest.mark.parametrize(
    "objective", ["clip", "dual_clip", "cispo", "dppo_tv", "sapo", "clip_cov", "kl_cov", "unbiased"]
)
def test_a_ratio_that_no_float_can_hold_has_a_finite_gradient(
    objective: str, level: RatioLevel, advantage: float
) -> None:
    log_probs = torch.tensor([-0.1, -1.0, -200.0], requires_grad=True)
    anchor = torch.tensor([-2000.0, -1.0, -0.1])
    advantages, sequence_of = torch.full((3,), advantage), torch.tensor([0, 1, 2])
    ratios = importance_ratios(log_probs, anchor, sequence_of, level)
    selected = torch.tensor([True, False, False])
    losses = {
        "clip": lambda: clipped_surrogate_loss(ratios, advantages, NEAR).losses,
        "dual_clip": lambda: (
            clipped_surrogate_loss(ratios, advantages, Clipping(0.2, 0.28, dual=3.0)).losses
        ),
        "cispo": lambda: cispo_loss(log_probs, ratios, advantages, NEAR).losses,
        "dppo_tv": lambda: total_variation_loss(log_probs, anchor, ratios, advantages, NEAR).losses,
        "sapo": lambda: soft_gated_loss(ratios, advantages, (1.0, 1.05)).losses,
        "clip_cov": lambda: clip_covariance_loss(ratios, advantages, NEAR, selected).losses,
        "kl_cov": lambda: (
            penalized_covariance_loss(log_probs, anchor, ratios, advantages, selected, 1.0).losses
        ),
        "unbiased": lambda: kl_estimates(
            log_probs, anchor, torch.full((3,), -3.0), KlEstimator.UNBIASED
        ),
    }[objective]()

    (gradient,) = torch.autograd.grad(losses.sum(), log_probs)

    assert bool(torch.isfinite(losses).all())
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("level", list(RatioLevel))
def test_a_ratio_that_is_no_number_ends_the_training(level: RatioLevel) -> None:
    log_probs = torch.tensor([-0.1, -1.0], requires_grad=True)
    anchor = torch.tensor([float("nan"), -1.0])
    ratios = importance_ratios(log_probs, anchor, torch.tensor([0, 1]), level)

    losses = clipped_surrogate_loss(ratios, torch.ones(2), NEAR).losses
    (gradient,) = torch.autograd.grad(losses.sum(), log_probs)

    assert gradient.isnan().tolist() == [True, False]  # its norm is not finite


def test_corrections_scale_the_gradient_of_a_sequence_ratio_by_their_mean_or_each_token() -> None:
    log_probs, sampler = drawn(6), drawn(6, seed=2).detach()
    old = drawn(6, seed=1).detach() / 100 + log_probs.detach()
    means = torch.full((6,), 1 / 6, dtype=torch.float64)  # two sequences of three tokens

    def gradient(level: RatioLevel, corrections: Tensor) -> Tensor:
        ratios = importance_ratios(log_probs, old, SEQUENCE_OF, level)
        losses = clipped_surrogate_loss(ratios, ADVANTAGES, Clipping(0.2, 0.28)).losses
        return torch.autograd.grad((means * corrections * losses).sum(), log_probs)[0]

    none = torch.ones(6, dtype=torch.float64)
    corrections = tis_weights(log_probs, sampler, cap=2.0)
    mean_of_sequence = corrections.view(2, 3).mean(1).repeat_interleave(3)
    assert not torch.allclose(corrections, mean_of_sequence)
    gspo = gradient(RatioLevel.SEQUENCE, none)
    torch.testing.assert_close(gradient(RatioLevel.SEQUENCE, corrections), gspo * mean_of_sequence)
    torch.testing.assert_close(gradient(RatioLevel.WITHIN_SEQUENCE, none), gspo)
    torch.testing.assert_close(
        gradient(RatioLevel.WITHIN_SEQUENCE, corrections), gspo * corrections
    )


def test_k3_gradient() -> None:
    reference = drawn(6, seed=1).detach()
    assert torch.autograd.gradcheck(lambda x: (WEIGHTS * k3(x, reference)).sum(), (drawn(6),))


@pytest.mark.parametrize("clip", [None, 0.2])
def test_value_loss_gradient(clip: float | None) -> None:
    old, returns = drawn(6, seed=1).detach(), drawn(6, seed=2).detach()
    assert torch.autograd.gradcheck(lambda x: value_loss(x, old, returns, clip).losses, (drawn(6),))


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_jsd_gradient_of_full_distributions(beta: float) -> None:
    teacher = drawn(4, 5, seed=1).detach().log_softmax(-1)

    def loss(logits: Tensor) -> Tensor:
        return generalized_jsd(teacher, logits.log_softmax(-1), beta)

    assert torch.autograd.gradcheck(loss, (drawn(4, 5),))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_jsd_gradient_of_top_k_distributions(beta: float) -> None:
    top = drawn(4, 5, seed=1).detach().log_softmax(-1).topk(2)

    def loss(logits: Tensor) -> Tensor:
        student = logits.log_softmax(-1).gather(-1, top.indices)
        return generalized_jsd(with_remainder(top.values), with_remainder(student), beta)

    assert torch.autograd.gradcheck(loss, (drawn(4, 5),))
