import asyncio

import pytest

from services.inference.clients import adaptive_limit
from services.inference.clients.adaptive_limit import FIRST, AdaptiveLimit, Waiters


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def answered(limit: AdaptiveLimit, times: int) -> None:
    for _ in range(times):
        limit.begin()
        limit.end()
        limit.succeeded()


def test_the_limit_doubles_in_a_round_until_the_first_congestion() -> None:
    limit = AdaptiveLimit(512)

    answered(limit, FIRST)

    assert limit.limit == 2 * FIRST


def test_after_congestion_a_round_of_answers_adds_one() -> None:
    limit = AdaptiveLimit(512)
    limit.congested(limit.begin())
    halved = limit.limit

    answered(limit, halved + 1)

    assert halved == FIRST // 2
    assert limit.limit == halved + 1


def test_one_burst_of_refusals_halves_the_limit_once() -> None:
    clock = Clock()
    limit = AdaptiveLimit(512, clock=clock)
    burst = [limit.begin() for _ in range(FIRST)]
    clock.now = 1.0

    for begun in burst:
        limit.congested(begun)

    assert limit.limit == FIRST // 2


def test_retry_after_delays_all_requests() -> None:
    clock = Clock()
    limit = AdaptiveLimit(512, clock=clock)

    limit.congested(limit.begin(), retry_after=5.0)
    limit.end()

    assert not limit.has_room
    clock.now = 5.0
    assert limit.has_room


def test_the_limit_stays_between_one_and_the_most() -> None:
    clock = Clock()
    limit = AdaptiveLimit(4, clock=clock)
    answered(limit, 100)
    assert limit.limit == 4

    for clock.now in range(1, 20):
        limit.congested(limit.begin())
    assert limit.limit == 1


def test_waiters_do_not_accumulate_during_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_limit, "LOOK_AGAIN_SECONDS", 0.001)
    waiters = Waiters()

    async def waiting() -> int:
        for _ in range(20):
            await asyncio.gather(*[waiters.woken() for _ in range(3)])
        return len(waiters._futures)

    assert asyncio.run(waiting()) == 0
