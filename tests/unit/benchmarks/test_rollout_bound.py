"""The bounds that rollouts are measured against."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rollouts.bound import greedy_seconds, least_seconds

DURATIONS = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)


@given(DURATIONS, st.integers(1, 8))
def test_no_schedule_is_shorter_than_the_bound(durations: list[float], places: int) -> None:
    least, greedy = least_seconds(durations, places), greedy_seconds(durations, places)
    assert least <= greedy * (1 + 1e-9)
    assert greedy <= least * (2 - 1 / places) * (1 + 1e-9)


def test_places_that_are_always_busy_reach_the_bound() -> None:
    assert least_seconds([2.0] * 12, 4) == pytest.approx(6.0)
    assert greedy_seconds([2.0] * 12, 4) == pytest.approx(6.0)
    assert least_seconds([1.0, 1.0, 9.0], 2) == 9.0
    assert greedy_seconds([1.0, 1.0, 9.0], 2) == 10.0
