"""The queue is fair, loses no slot, and rejects requests that it cannot serve in time."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
)

from services.sandbox.admission import OVERSUBSCRIPTION, SETTLE_SECONDS, Admission, QueueFull
from tests.support.virtual_time import VirtualLoop, run_in_virtual_time

PLACES = 2


class Guest:
    """A request: it acquires a slot and keeps it until told to release it."""

    def __init__(self, admission: Admission, queue_timeout: float) -> None:
        self.deadline = asyncio.get_running_loop().time() + queue_timeout
        self.is_in = False
        self.may_go = asyncio.Event()
        self.task = asyncio.ensure_future(self._stay(admission, queue_timeout))

    async def _stay(self, admission: Admission, queue_timeout: float) -> None:
        async with admission.permit(queue_timeout):
            self.is_in = True
            await self.may_go.wait()
            self.is_in = False

    @property
    def was_refused(self) -> bool:
        return self.task.done() and not self.task.cancelled() and self.task.exception() is not None


class Queue(RuleBasedStateMachine):
    """Requests arrive, time out, disconnect and release, in any order."""

    waiting = Bundle("waiting")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.admission = Admission(PLACES)
        self.guests: list[Guest] = []  # in order of arrival, those who are neither out nor gone

    def teardown(self) -> None:
        for guest in self.guests:
            guest.task.cancel()
        self.loop.settle()
        assert (self.admission.running, self.admission.waiting) == (0, 0)
        self.loop.close()

    @rule(queue_timeout=st.floats(0.5, 100))
    def come(self, queue_timeout: float) -> None:
        async def make() -> Guest:
            return Guest(self.admission, queue_timeout)

        self.guests.append(self.loop.run_until_complete(make()))
        self._settle()

    @rule(index=st.integers(0, 50))
    def release(self, index: int) -> None:
        inside = [guest for guest in self.guests if guest.is_in]
        if inside:
            inside[index % len(inside)].may_go.set()
        self._settle()

    @rule(index=st.integers(0, 50))
    def hang_up(self, index: int) -> None:
        if self.guests:
            self.guests[index % len(self.guests)].task.cancel()
        self._settle()

    @rule(first=st.integers(0, 50), second=st.integers(0, 50), turns=st.integers(0, 3))
    def leave_and_hang_up_at_once(self, first: int, second: int, turns: int) -> None:
        """A client disconnects so many turns of the loop after another starts to release."""
        inside = [guest for guest in self.guests if guest.is_in]
        outside = [guest for guest in self.guests if not guest.is_in]
        if inside and outside:
            inside[first % len(inside)].may_go.set()
            self._in_turns(turns, outside[second % len(outside)].task)
        self._settle()

    def _in_turns(self, turns: int, task: "asyncio.Task[None]") -> None:
        if turns == 0:
            task.cancel()
        else:
            self.loop.call_soon(self._in_turns, turns - 1, task)

    @rule(seconds=st.floats(0.1, 30))
    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self._settle()

    @invariant()
    def places_are_neither_lost_nor_doubled(self) -> None:
        inside = sum(guest.is_in for guest in self.guests)
        assert inside == self.admission.running == min(PLACES, len(self.guests))
        assert self.admission.waiting == len(self.guests) - inside

    @invariant()
    def guests_are_admitted_in_order_of_arrival(self) -> None:
        states = [guest.is_in for guest in self.guests]
        assert states == sorted(states, reverse=True)

    @invariant()
    def no_guest_waits_beyond_its_deadline(self) -> None:
        assert all(guest.is_in or guest.deadline > self.loop.time() for guest in self.guests)

    def _settle(self) -> None:
        self.loop.settle()
        for guest in [guest for guest in self.guests if guest.task.done()]:
            self.guests.remove(guest)
            if guest.was_refused:
                assert isinstance(guest.task.exception(), QueueFull)
                assert self.admission.running == PLACES


TestQueue = Queue.TestCase
TestQueue.settings = settings(stateful_step_count=40, deadline=None)


async def visit(admission: Admission, seconds: float, queue_timeout: float) -> float | None:
    """Hold a slot for some time; returns the seconds waited, or None if rejected."""
    loop = asyncio.get_running_loop()
    came = loop.time()
    with contextlib.suppress(QueueFull):
        async with admission.permit(queue_timeout):
            waited = loop.time() - came
            await asyncio.sleep(seconds)
            return waited
    return None


@pytest.mark.parametrize("seconds", [0.005, 0.05, 0.4])
def test_a_burst_of_short_programs_is_never_refused(seconds: float) -> None:
    async def burst() -> list[float | None]:
        admission = Admission(4)
        return await asyncio.gather(*(visit(admission, seconds, 30.0) for _ in range(256)))

    assert None not in run_in_virtual_time(burst())


def test_the_estimate_adapts_to_shorter_programs() -> None:
    async def both() -> list[float | None]:
        admission = Admission(4)
        await asyncio.gather(*(visit(admission, 30.0, 100.0) for _ in range(12)))
        return await asyncio.gather(*(visit(admission, 0.01, 20.0) for _ in range(256)))

    assert None not in run_in_virtual_time(both())


def test_a_hopeless_request_is_refused_immediately() -> None:
    async def crowd() -> tuple[float, QueueFull]:
        loop = asyncio.get_running_loop()
        admission = Admission(4)
        crowd = [asyncio.ensure_future(visit(admission, 30.0, 500.0)) for _ in range(100)]
        await asyncio.sleep(40.0)
        asked = loop.time()
        with pytest.raises(QueueFull) as refusal:
            await admission.acquire(queue_timeout=20.0)
        for visitor in crowd:
            visitor.cancel()
        return loop.time() - asked, refusal.value

    waited, refusal = run_in_virtual_time(crowd())

    assert waited == 0
    assert refusal.retry_after >= 1
    assert "requests are waiting" in refusal.message


def test_a_request_is_refused_when_its_queue_timeout_passes() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        admission = Admission(1)
        await admission.acquire(1.0)
        asked = loop.time()
        with pytest.raises(QueueFull, match="within 20 s"):
            await admission.acquire(20.0)
        assert admission.waiting == 0
        return loop.time() - asked

    assert run_in_virtual_time(wait()) == pytest.approx(20.0)


def test_a_moving_queue_accepts_requests_again() -> None:
    async def crowd() -> list[float | None]:
        admission = Admission(2)
        old = [asyncio.ensure_future(visit(admission, 10.0, 1000.0)) for _ in range(20)]
        await asyncio.sleep(30.0)
        refused = await visit(admission, 0.1, 5.0)
        await asyncio.gather(*old)
        return [refused, await visit(admission, 0.1, 5.0)]

    refused, taken = run_in_virtual_time(crowd())

    assert refused is None
    assert taken == 0


@dataclass
class FakeLoad:
    """All programs are asleep once they have settled, and so many bytes are left."""

    free: int = 1000

    def has_room(self, memory_bytes: int, recent: Sequence[int], max_busy: int) -> bool:
        return len(recent) < max_busy and sum(recent) + memory_bytes <= self.free


class Spinning:
    """All programs compute."""

    admission: Admission

    def has_room(self, _memory_bytes: int, _recent: Sequence[int], max_busy: int) -> bool:
        return self.admission.running < max_busy


def test_sleeping_programs_do_not_block_others() -> None:
    async def crowd() -> list[float | None]:
        admission = Admission(100, 4, FakeLoad())
        return await asyncio.gather(*(visit(admission, 60.0, 20.0) for _ in range(100)))

    waited = run_in_virtual_time(crowd())

    assert None not in waited
    assert waited[:4] == [0.0] * 4
    assert max(filter(None, waited)) < 100 / 4 * 2 * SETTLE_SECONDS


def test_more_programs_than_slots_wait_however_idle_they_are() -> None:
    async def crowd() -> list[float | None]:
        admission = Admission(10, 4, FakeLoad())
        return await asyncio.gather(*(visit(admission, 5.0, 20.0) for _ in range(11)))

    waited = run_in_virtual_time(crowd())

    assert waited[10] == pytest.approx(5.0)


def test_processors_are_shared_by_more_programs_rather_than_refusing_a_request() -> None:
    async def crowd() -> list[float | None]:
        load = Spinning()
        admission = load.admission = Admission(100, 4, load)
        return await asyncio.gather(
            *(visit(admission, 60.0, 20.0) for _ in range(4 * OVERSUBSCRIPTION + 1))
        )

    waited = run_in_virtual_time(crowd())

    assert waited[:4] == [0.0] * 4
    assert [each and round(each) for each in waited[4:-1]] == [10] * (4 * OVERSUBSCRIPTION - 4)
    assert waited[-1] is None


def test_a_program_waits_until_the_memory_it_may_take_is_free() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        load = FakeLoad(free=100)
        admission = Admission(10, 1, load)
        await admission.acquire(1.0, memory_bytes=100)
        loop.call_later(7.0, setattr, load, "free", 200)
        asked = loop.time()
        await admission.acquire(20.0, memory_bytes=200)
        return loop.time() - asked

    assert run_in_virtual_time(wait()) == pytest.approx(7.0, abs=0.1)
