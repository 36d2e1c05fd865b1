import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.training.policy_loss import Aggregation, KlEstimator, RatioLevel
from services.trainer.rl.losses import (
    Clipping,
    clipped_surrogate_loss,
    generalized_jsd,
    importance_ratios,
    k3,
    kl_estimates,
    tis_weights,
    token_weights,
    value_loss,
    with_remainder,
)

DAPO = Clipping(low=0.2, high=0.28)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss"),
    [(1, 1.5, -1.28), (1, 0.5, -0.5), (-1, 1.5, 1.5), (-1, 0.5, 0.8)],
)
def test_clipped_losses(advantage: float, ratio: float, loss: float) -> None:
    surrogate = clipped_surrogate_loss(
        torch.tensor([ratio]), torch.tensor([float(advantage)]), DAPO
    )
    torch.testing.assert_close(surrogate.losses, torch.tensor([loss]))


def test_clip_masks_mark_tokens_without_gradient() -> None:
    ratios = torch.tensor([1.5, 0.5, 1.5, 0.5], requires_grad=True)
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    surrogate = clipped_surrogate_loss(ratios, advantages, DAPO)
    (gradient,) = torch.autograd.grad(surrogate.losses.sum(), ratios)
    clipped = surrogate.clipped_high | surrogate.clipped_low
    assert surrogate.clipped_high.tolist() == [True, False, False, False]
    assert surrogate.clipped_low.tolist() == [False, False, False, True]
    assert (gradient == 0).tolist() == clipped.tolist()


def test_dual_clip_bounds_the_loss_of_negative_advantages_only() -> None:
    clipping = Clipping(low=0.2, high=0.28, dual=3.0)
    ratios = torch.tensor([5.0, 2.0, 5.0, 0.1])
    surrogate = clipped_surrogate_loss(ratios, torch.tensor([-2.0, -2.0, 2.0, -2.0]), clipping)
    torch.testing.assert_close(surrogate.losses, torch.tensor([6.0, 4.0, -2.56, 1.6]))
    assert surrogate.clipped_dual.tolist() == [True, False, False, False]


def test_token_ratios() -> None:
    log_probs, old = torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0])
    ratios = importance_ratios(
        log_probs, old, torch.zeros(2, dtype=torch.long), RatioLevel.TOKENWISE
    )
    torch.testing.assert_close(ratios, torch.tensor([0.5, -1.0]).exp())


def test_sequence_ratios_are_geometric_means() -> None:
    old = torch.zeros(5)
    log_probs = torch.tensor([0.1, 0.2, 0.6, -0.4, 0.2])
    sequence_of = torch.tensor([0, 0, 0, 1, 1])
    for level in (RatioLevel.SEQUENCE, RatioLevel.WITHIN_SEQUENCE):
        ratios = importance_ratios(log_probs, old, sequence_of, level)
        torch.testing.assert_close(ratios, torch.tensor([0.3, 0.3, 0.3, -0.1, -0.1]).exp())


def test_tis_weights_are_truncated_and_detached() -> None:
    old = torch.tensor([-1.0, 0.1, 0.69, 1.5], requires_grad=True)
    weights = tis_weights(old, torch.zeros(4), cap=2.0)
    expected = torch.tensor([0.36788, 1.10517, 1.99372, 2.0])
    torch.testing.assert_close(weights, expected, rtol=0, atol=5e-6)
    assert not weights.requires_grad


@pytest.mark.parametrize(
    ("aggregation", "loss"),
    [
        (Aggregation.MEAN_OF_TOKENS, 0.2),
        (Aggregation.MEAN_OF_SEQUENCE_MEANS, 0.5),
        (Aggregation.MEAN_OF_SEQUENCE_SUMS, 0.0625),
    ],
)
def test_aggregation_of_short_and_long_sequences(aggregation: Aggregation, loss: float) -> None:
    weights = token_weights(torch.tensor([2, 8]), aggregation, max_length=16)
    losses = torch.tensor([1.0] * 2 + [0.0] * 8)
    torch.testing.assert_close((weights * losses).sum(), torch.tensor(loss))


@given(st.lists(st.integers(0, 9), max_size=8))
def test_mean_weights_sum_to_one(lengths: list[int]) -> None:
    for aggregation in (Aggregation.MEAN_OF_TOKENS, Aggregation.MEAN_OF_SEQUENCE_MEANS):
        weights = token_weights(torch.tensor(lengths, dtype=torch.long), aggregation, 16)
        assert len(weights) == sum(lengths)
        assert float(weights.sum()) == pytest.approx(1.0 if sum(lengths) else 0.0)


def test_sequences_without_tokens_are_not_counted() -> None:
    for aggregation in Aggregation:
        with_empty = token_weights(torch.tensor([0, 2, 0, 8]), aggregation, 16)
        without = token_weights(torch.tensor([2, 8]), aggregation, 16)
        torch.testing.assert_close(with_empty, without)


def test_k3_is_non_negative_and_zero_for_equal_policies() -> None:
    log_probs, reference = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-1.0, -1.0, -3.0])
    expected = torch.tensor([0.0, 2.718281828 - 2.0, 0.082084999 + 1.5])
    torch.testing.assert_close(k3(log_probs, reference), expected)


def test_k3_of_an_improbable_token_is_bounded() -> None:
    log_probs = torch.tensor([-200.0, 0.0], requires_grad=True)
    divergences = k3(log_probs, torch.tensor([0.0, -200.0]))
    divergences.sum().backward()
    assert divergences.tolist() == [10.0, 10.0]
    assert log_probs.grad is not None
    assert bool(torch.isfinite(log_probs.grad).all())


def test_k3_estimates_the_kl_divergence() -> None:
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    reference = torch.tensor([0.3, 0.4, 0.3], dtype=torch.float64)
    exact = (policy * (policy / reference).log()).sum()
    torch.testing.assert_close((policy * k3(policy.log(), reference.log())).sum(), exact)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # d = 0.5: exp(-0.5) - 1 + 0.5; the ratio to the old policy is exp(0.2)
        (KlEstimator.K1, 0.5),
        (KlEstimator.K2, 0.125),
        (KlEstimator.K3, 0.1065306597),
        (KlEstimator.UNBIASED, 0.1301168406),
    ],
)
def test_kl_estimates(estimator: KlEstimator, expected: float) -> None:
    log_probs, old, reference = (
        torch.tensor([each], dtype=torch.float64) for each in (-1.0, -1.2, -1.5)
    )
    estimates = kl_estimates(log_probs, old, reference, estimator)
    torch.testing.assert_close(estimates, torch.tensor([expected], dtype=torch.float64))


def test_a_token_that_the_sampler_found_improbable_weighs_ten_times_another_at_most() -> None:
    log_probs, reference = torch.tensor([-0.5, -0.5]), torch.tensor([-1.0, -1.0])

    near, far = kl_estimates(
        log_probs, torch.tensor([-0.5, -16.5]), reference, KlEstimator.UNBIASED
    ).tolist()

    assert far == pytest.approx(10.0 * near)


def test_value_loss_takes_the_larger_error() -> None:
    values, old = torch.tensor([1.0, 1.0, 0.1]), torch.tensor([0.0, 0.0, 0.0])
    returns = torch.tensor([1.0, 0.0, 1.0])
    clipped = value_loss(values, old, returns, clip=0.2)
    free = value_loss(values, old, returns, clip=None)
    torch.testing.assert_close(clipped.losses, 0.5 * torch.tensor([0.64, 1.0, 0.81]))
    torch.testing.assert_close(free.losses, 0.5 * torch.tensor([0.0, 1.0, 0.81]))
    assert clipped.clipped.tolist() == [True, False, False]


TEACHER = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).log()
STUDENT = torch.tensor([[0.3, 0.4, 0.3]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("beta", "divergence"),
    [(0.0, 0.3446178), (0.1, 0.0307158), (0.5, 0.0842938), (0.9, 0.0312532), (1.0, 0.3526532)],
)
def test_generalized_jsd(beta: float, divergence: float) -> None:
    found = generalized_jsd(TEACHER, STUDENT, beta)
    expected = torch.tensor([divergence], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-8)


def test_tokens_impossible_for_the_teacher_contribute_nothing() -> None:
    teacher = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    found = generalized_jsd(teacher, STUDENT, 0.0)
    expected = 0.5 * torch.tensor([0.5 / 0.3, 0.5 / 0.4], dtype=torch.float64).log().sum()
    torch.testing.assert_close(found[0], expected)


LOGITS = st.lists(st.floats(-20, 20), min_size=5, max_size=5)


@given(teacher=LOGITS, student=LOGITS, beta=st.floats(0, 1), k=st.integers(1, 4))
def test_top_k_divergence_is_a_lower_bound(
    teacher: list[float], student: list[float], beta: float, k: int
) -> None:
    whole_teacher = torch.tensor([teacher], dtype=torch.float64).log_softmax(-1)
    whole_student = torch.tensor([student], dtype=torch.float64).log_softmax(-1)
    top = whole_teacher.topk(k)
    bound = generalized_jsd(
        with_remainder(top.values), with_remainder(whole_student.gather(-1, top.indices)), beta
    )
    whole = generalized_jsd(whole_teacher, whole_student, beta)
    assert -1e-5 <= float(bound) <= float(whole) + 1e-4


def test_remainder_completes_a_distribution() -> None:
    completed = with_remainder(torch.tensor([[0.7, 0.2], [0.1, 0.1]], dtype=torch.float64).log())
    expected = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], dtype=torch.float64)
    torch.testing.assert_close(completed.exp(), expected)
