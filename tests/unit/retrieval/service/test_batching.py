"""Concurrent work is merged; a lone item does not wait."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.engine.batching import Batcher, BatchStats
from tests.support.virtual_time import run_in_virtual_time


class Worker:
    """Work that finishes on demand; a result is its item, marked."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._ends: list[asyncio.Future[list[str | Exception]]] = []

    def __call__(self, items: Sequence[int]) -> "asyncio.Future[list[str | Exception]]":
        self.begun.append(list(items))
        end: asyncio.Future[list[str | Exception]] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        return end

    async def end(self, batch: int, **errors: Exception) -> None:
        results: list[str | Exception] = [f"done {item}" for item in self.begun[batch]]
        self._ends[batch].set_result([errors.get(f"at_{n}", one) for n, one in enumerate(results)])
        await asyncio.sleep(0)

    async def fail(self, batch: int, error: Exception) -> None:
        self._ends[batch].set_exception(error)
        await asyncio.sleep(0)


def batches(worker: Worker, **bounds: float) -> Batcher[int, str]:
    chosen = {"parallel": 1, "largest": 4, **bounds}
    return Batcher(worker, BatchStats(), **chosen)  # type: ignore[arg-type]  # the mapping's values are of several types


def test_a_lone_item_starts_immediately() -> None:
    async def lone() -> list[list[int]]:
        worker = Worker()
        batches(worker, max_wait=10.0).submit(1)
        return worker.begun

    assert run_in_virtual_time(lone()) == [[1]]


def test_waiting_items_are_merged_up_to_the_largest_batch() -> None:
    async def several() -> list[list[int]]:
        worker = Worker()
        queue = batches(worker)
        answers = [queue.submit(item) for item in range(7)]
        await worker.end(0)
        await worker.end(1)
        await worker.end(2)
        assert [answer.result() for answer in answers] == [f"done {item}" for item in range(7)]
        return worker.begun

    assert run_in_virtual_time(several()) == [[0], [1, 2, 3, 4], [5, 6]]


def test_waiting_items_are_spread_over_free_slots() -> None:
    async def shared() -> list[list[int]]:
        worker = Worker()
        queue = batches(worker, parallel=2, largest=8)
        for item in range(6):
            queue.submit(item)
        await worker.end(0)
        await worker.end(1)
        return worker.begun

    assert run_in_virtual_time(shared()) == [[0], [1], [2, 3, 4, 5]]


def test_a_small_batch_waits_briefly_while_another_runs() -> None:
    async def patient() -> list[list[int]]:
        worker = Worker()
        queue = batches(worker, parallel=2, max_wait=0.002)
        for item in range(3):
            queue.submit(item)
        assert worker.begun == [[0]]
        await asyncio.sleep(0.003)
        return worker.begun

    assert run_in_virtual_time(patient()) == [[0], [1, 2]]


def test_a_full_batch_does_not_wait() -> None:
    async def full() -> list[list[int]]:
        worker = Worker()
        queue = batches(worker, parallel=2, max_wait=10.0)
        for item in range(5):
            queue.submit(item)
        return worker.begun

    assert run_in_virtual_time(full()) == [[0], [1, 2, 3, 4]]


def test_cancelled_items_are_never_started() -> None:
    async def abandoned() -> list[list[int]]:
        worker = Worker()
        queue = batches(worker)
        answers = [queue.submit(item) for item in range(4)]
        answers[1].cancel()
        answers[2].cancel()
        await worker.end(0)
        return worker.begun

    assert run_in_virtual_time(abandoned()) == [[0], [3]]


def test_a_failed_batch_fails_only_its_items() -> None:
    async def failing() -> None:
        worker = Worker()
        queue = batches(worker)
        answers = [queue.submit(item) for item in range(2)]
        await worker.fail(0, OSError("gone"))
        await worker.end(1)
        with pytest.raises(OSError, match="gone"):
            answers[0].result()
        assert answers[1].result() == "done 1"

    run_in_virtual_time(failing())


def test_an_item_error_fails_only_that_item() -> None:
    async def failing() -> None:
        worker = Worker()
        queue = batches(worker)
        answers = [queue.submit(item) for item in range(3)]
        await worker.end(0)
        await worker.end(1, at_0=OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            answers[1].result()
        assert answers[2].result() == "done 2"

    run_in_virtual_time(failing())


@given(
    weights=st.lists(st.integers(1, 6), max_size=30),
    parallel=st.integers(1, 3),
    pauses=st.lists(st.integers(0, 3), max_size=30),
)
def test_every_item_runs_once_within_the_bounds(
    weights: list[int], parallel: int, pauses: list[int]
) -> None:
    largest = 5

    async def mixed() -> None:
        in_work = most = 0
        seen: list[int] = []

        async def work(items: Sequence[int]) -> list[int | Exception]:
            nonlocal in_work, most
            in_work += 1
            most = max(most, in_work)
            seen.extend(items)
            weight = sum(weights[item] for item in items)
            assert weight <= largest or len(items) == 1
            await asyncio.sleep(0.01)
            in_work -= 1
            return [*items]

        queue: Batcher[int, int] = Batcher(
            lambda items: asyncio.ensure_future(work(items)),
            BatchStats(),
            parallel=parallel,
            largest=largest,
            max_wait=0.002,
        )
        answers = []
        for item, weight in enumerate(weights):
            answers.append(queue.submit(item, weight))
            await asyncio.sleep((pauses[item] if item < len(pauses) else 0) / 1000)
        assert list(await asyncio.gather(*answers)) == list(range(len(weights)))
        assert sorted(seen) == list(range(len(weights)))
        assert most <= parallel

    run_in_virtual_time(mixed())
