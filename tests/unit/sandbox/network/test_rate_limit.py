"""Rate limiting."""

from hypothesis import given
from hypothesis import strategies as st

from services.sandbox.network.stream import RateLimit

RATE = 1000.0


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 2000)), min_size=1))
def test_throughput_never_exceeds_rate_plus_burst(steps: list[tuple[float, int]]) -> None:
    now = [0.0]
    rate_limit = RateLimit(RATE, clock=lambda: now[0])
    total = 0
    for pause, amount in steps:
        now[0] += pause
        now[0] += rate_limit.reserve(amount)
        total += amount
        # What came last was let through when its turn began, a quarter of a second early at most.
        assert total <= RATE * (now[0] + 0.25) + 1e-6


def test_a_small_amount_after_a_pause_does_not_wait() -> None:
    now = [100.0]
    rate_limit = RateLimit(RATE, clock=lambda: now[0])

    assert rate_limit.reserve(250) == 0
    assert rate_limit.reserve(1000) == 1.0
    now[0] += 10
    assert rate_limit.reserve(200) == 0
