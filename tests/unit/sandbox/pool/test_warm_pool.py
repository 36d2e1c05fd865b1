"""Each slot serves one run at a time, and no waiter waits forever."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.sandbox.execution import SandboxFailure
from services.sandbox.pool.run import SlotLost
from services.sandbox.pool.slot import Slot
from services.sandbox.pool.warm_pool import WarmPool

MOST = 3
SECONDS = 60


class StandIn:
    """A slot without a process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.broken = False
        self.alive = True
        self.closed = False
        self.last_used = 0.0
        self.fails_to_prepare = False

    async def prepare(self) -> None:
        await asyncio.sleep(0)
        if self.fails_to_prepare:
            self.broken = True
            raise SlotLost("as the test wants it")

    def is_alive(self) -> bool:
        return self.alive and not self.broken

    async def close(self) -> None:
        self.broken = True
        await asyncio.sleep(0)
        self.closed = True


class Maker:
    """Creates stand-ins, or fails."""

    def __init__(self) -> None:
        self.made: list[StandIn] = []
        self.fails = False
        self.ever_failed = False

    async def __call__(self) -> Slot:
        await asyncio.sleep(0)
        if self.fails:
            raise SandboxFailure("as the test wants it")
        self.made.append(StandIn(len(self.made)))
        return cast(Slot, self.made[-1])

    @property
    def living(self) -> list[StandIn]:
        return [slot for slot in self.made if not slot.closed]


def stand_in(slot: Slot) -> StandIn:
    return cast(StandIn, slot)


async def settle() -> None:
    """Let all tasks proceed."""
    for _ in range(50):
        await asyncio.sleep(0)


def with_shelf(test: Callable[[WarmPool, Maker], Awaitable[None]]) -> None:
    async def run() -> None:
        maker = Maker()
        warm_pool = WarmPool(MOST, maker)
        async with asyncio.timeout(SECONDS):
            await test(warm_pool, maker)
            await warm_pool.close()
        assert maker.living == []

    asyncio.run(run())


def test_slots_are_reused() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        for _ in range(5):
            warm_pool.release(await warm_pool.acquire())
            await settle()
        assert len(maker.made) == 1

    with_shelf(test)


def test_waiters_get_slots_in_order() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        order = []

        async def use(number: int) -> None:
            slot = await warm_pool.acquire()
            order.append(number)
            await asyncio.sleep(0)
            warm_pool.release(slot)

        await asyncio.gather(*(use(number) for number in range(20)))
        assert order == list(range(20))
        assert len(maker.made) == MOST

    with_shelf(test)


@pytest.mark.parametrize("loss", ["broken", "fails_to_prepare"])
def test_a_lost_slot_is_replaced_for_its_waiter(loss: str) -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        taken = [await warm_pool.acquire() for _ in range(MOST)]
        waiter = asyncio.create_task(warm_pool.acquire())
        await settle()
        setattr(taken[0], loss, True)

        warm_pool.release(taken[0])

        assert stand_in(await waiter) is maker.made[MOST]
        assert stand_in(taken[0]).closed

    with_shelf(test)


def test_dead_ready_slots_are_replaced() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        for slot in [await warm_pool.acquire() for _ in range(MOST)]:
            warm_pool.release(slot)
        await settle()
        for made in maker.made:
            made.alive = False

        taken = [
            stand_in(slot)
            for slot in await asyncio.gather(*(warm_pool.acquire() for _ in range(3)))
        ]

        assert taken == maker.made[MOST:]
        assert len(maker.living) == MOST

    with_shelf(test)


def test_a_retired_slot_is_replaced_for_its_waiter() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        for slot in [await warm_pool.acquire() for _ in range(MOST)]:
            warm_pool.release(slot)
        await settle()

        retiring = asyncio.create_task(warm_pool.retire(float("inf")))
        await asyncio.sleep(0)
        taken = stand_in(await warm_pool.acquire())
        await retiring

        assert taken.is_alive()
        assert maker.living == [taken]

    with_shelf(test)


def test_slots_in_use_are_not_retired() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        used, unused = await warm_pool.acquire(), await warm_pool.acquire()
        warm_pool.release(unused)
        await settle()

        await warm_pool.retire(float("inf"))

        assert maker.living == [stand_in(used)]

    with_shelf(test)


def test_all_waiters_fail_if_no_slot_can_start() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        maker.fails = True

        answers = await asyncio.gather(
            *(warm_pool.acquire() for _ in range(8)), return_exceptions=True
        )

        assert {type(answer) for answer in answers} == {SandboxFailure}
        maker.fails = False
        assert stand_in(await warm_pool.acquire()).is_alive()

    with_shelf(test)


def test_a_waiter_keeps_waiting_for_a_busy_slot_if_no_other_can_start() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        used = await warm_pool.acquire()
        maker.fails = True
        waiter = asyncio.create_task(warm_pool.acquire())
        await settle()

        warm_pool.release(used)

        assert await waiter is used

    with_shelf(test)


def test_a_waiter_cancelled_while_served_passes_its_slot_on() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        taken = [await warm_pool.acquire() for _ in range(MOST)]
        first, second = (asyncio.create_task(warm_pool.acquire()) for _ in range(2))
        await settle()
        stand_in(taken[0]).prepare = no_wait  # type: ignore[method-assign]  # a stand-in does not prepare

        warm_pool.release(taken[0])
        await asyncio.sleep(0)
        first.cancel()

        assert await second is taken[0]
        assert first.cancelled()

    async def no_wait() -> None:
        pass

    with_shelf(test)


def test_waiters_fail_when_the_pool_closes() -> None:
    async def test(warm_pool: WarmPool, maker: Maker) -> None:
        for _ in range(MOST):
            await warm_pool.acquire()
        waiter = asyncio.create_task(warm_pool.acquire())
        await settle()

        await warm_pool.close()

        for waiting in (waiter, warm_pool.acquire()):
            with pytest.raises(SandboxFailure):
                await waiting

    with_shelf(test)


class Shelves(RuleBasedStateMachine):
    """Any order of acquiring, releasing, losing, cancelling, retiring and failing."""

    @initialize()
    def start(self) -> None:
        self.runner = asyncio.Runner()
        self.maker = Maker()
        self.warm_pool = WarmPool(MOST, self.maker)
        self.taking: list[asyncio.Task[Slot]] = []
        self.held: list[StandIn] = []

    def run(self, work: Awaitable[Any] | None = None, *, steps: int = 50) -> None:
        async def go() -> None:
            if work is not None:
                await work
            for _ in range(steps):
                await asyncio.sleep(0)

        self.runner.run(go())
        for task in [task for task in self.taking if task.done()]:
            self.taking.remove(task)
            if not task.cancelled() and task.exception() is None:
                self.held.append(stand_in(task.result()))

    @rule(steps=st.integers(0, 6))
    def take(self, steps: int) -> None:
        async def begin() -> None:
            self.taking.append(asyncio.create_task(self.warm_pool.acquire()))

        self.run(begin(), steps=steps)

    @precondition(lambda self: self.held)
    @rule(loss=st.sampled_from(["", "broken", "fails_to_prepare"]), steps=st.integers(0, 6))
    def release(self, loss: str, steps: int) -> None:
        slot = self.held.pop(0)
        if loss:
            setattr(slot, loss, True)

        async def give() -> None:
            self.warm_pool.release(cast(Slot, slot))

        self.run(give(), steps=steps)

    @precondition(lambda self: self.taking)
    @rule(which=st.integers(0), steps=st.integers(0, 6))
    def cancel(self, which: int, steps: int) -> None:
        task = self.taking[which % len(self.taking)]

        async def stop() -> None:
            task.cancel()

        self.run(stop(), steps=steps)

    @rule(which=st.integers(0))
    def die_in_the_shelf(self, which: int) -> None:
        resting = [slot for slot in self.maker.living if slot not in self.held]
        if resting:
            resting[which % len(resting)].alive = False

    @rule()
    def retire(self) -> None:
        self.run(self.warm_pool.retire(float("inf")))

    @rule(fails=st.booleans())
    def change_the_maker(self, fails: bool) -> None:
        self.maker.fails = fails
        self.maker.ever_failed |= fails

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        assert len({id(slot) for slot in self.held}) == len(self.held)
        assert not any(slot.closed for slot in self.held)

    @invariant()
    def there_are_never_too_many(self) -> None:
        assert len(self.maker.living) <= MOST

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        self.run()
        if not self.held or (len(self.held) < MOST and not self.maker.ever_failed):
            assert self.taking == []

    def teardown(self) -> None:
        self.run(self.warm_pool.close())
        assert self.taking == []
        assert self.maker.living == []
        self.runner.close()


TestShelves = Shelves.TestCase
TestShelves.settings = settings(stateful_step_count=25, deadline=None)
