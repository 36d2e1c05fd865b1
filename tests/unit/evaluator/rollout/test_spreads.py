"""Means with their uncertainty, and distributions of values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.evaluator.statistics import reward_spread, spread


def test_a_spread_describes_the_distribution() -> None:
    found = spread([4.0, 0.0, 1.0, 3.0, 2.0])

    assert (found.count, found.mean, found.min, found.median, found.max) == (5, 2.0, 0.0, 2.0, 4.0)
    assert found.p95 == pytest.approx(3.8)


def test_with_one_sample_per_prompt_the_standard_error_is_that_of_the_mean() -> None:
    found = reward_spread([1.0, 0.0, 0.0, 1.0], [0, 1, 2, 3])

    plain = math.sqrt(1 / 3) / math.sqrt(4)  # the standard deviation with n - 1, over root n
    assert found.stderr == pytest.approx(plain)
    assert found.ci95 == pytest.approx((0.5 - 1.96 * plain, 0.5 + 1.96 * plain))


def test_identical_samples_of_a_prompt_do_not_reduce_the_standard_error() -> None:
    once = reward_spread([1.0, 0.0, 1.0], [0, 1, 2])
    thrice = reward_spread([1.0] * 3 + [0.0] * 3 + [1.0] * 3, [0] * 3 + [1] * 3 + [2] * 3)

    assert thrice.mean == pytest.approx(once.mean)
    assert thrice.stderr == pytest.approx(once.stderr)


def test_the_standard_error_of_a_single_prompt_is_over_its_samples() -> None:
    assert reward_spread([1.0, 0.0], [5, 5]).stderr == pytest.approx(0.5)
    assert reward_spread([1.0], [5]).stderr == 0.0


@given(rewards=st.lists(st.tuples(st.integers(0, 4), st.floats(-2, 2)), min_size=1, max_size=30))
def test_the_interval_contains_the_mean_in_any_order(
    rewards: list[tuple[int, float]],
) -> None:
    found = reward_spread([value for _, value in rewards], [prompt for prompt, _ in rewards])
    turned = reward_spread(
        [value for _, value in rewards[::-1]], [prompt for prompt, _ in rewards[::-1]]
    )

    assert found.ci95[0] <= found.mean <= found.ci95[1]
    assert found.stderr == pytest.approx(turned.stderr, abs=1e-9)
