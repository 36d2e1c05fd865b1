"""Dynamic batching: merges concurrent requests without delaying a lone one."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Work = Callable[[Sequence[Item]], "asyncio.Future[list[Result | Exception]]"]
"""Starts a batch; results or exceptions come in the order of the items."""


@dataclass
class BatchStats:
    """Counters of a batcher."""

    batches: int = 0
    weight: int = 0
    abandoned: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item, Result]):
    item: Item
    weight: int
    since: float
    answer: "asyncio.Future[Result]"


class Batcher(Generic[Item, Result]):
    """Batches one kind of work; belongs to one event loop.

    At most ``parallel`` batches run concurrently. While a slot is free, items start immediately;
    otherwise they are merged and shared out when slots free up. While something runs, a batch
    smaller than ``largest`` waits up to ``max_wait`` seconds for more items. A batch weighs at most
    ``largest``, unless a single item weighs more. Cancelled items are never started.
    """

    def __init__(
        self,
        work: "Work[Item, Result]",
        stats: BatchStats,
        *,
        parallel: int,
        largest: int,
        max_wait: float = 0.0,
    ) -> None:
        self._stats = stats
        self._work = work
        self._parallel = parallel
        self._largest = largest
        self._max_wait = max_wait
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._weight = 0
        self._in_work = 0
        self._alarm: asyncio.TimerHandle | None = None

    def submit(self, item: Item, weight: int = 1) -> "asyncio.Future[Result]":
        """Enqueue an item; cancelling the future withdraws it if it has not started."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(item, weight, loop.time(), answer))
        self._weight += weight
        self._begin()
        return answer

    def _begin(self) -> None:
        """Start as many batches as there are items and free slots."""
        while self._waiting and self._in_work < self._parallel and not self._waits_for_more():
            share = -(-self._weight // (self._parallel - self._in_work))
            batch = self._take(min(share, self._largest))
            if batch:
                self._start(batch)

    def _waits_for_more(self) -> bool:
        if not (self._max_wait and self._in_work) or self._weight >= self._largest:
            return False
        loop = asyncio.get_running_loop()
        left = self._waiting[0].since + self._max_wait - loop.time()
        if left <= 0:
            return False
        if self._alarm is None:
            self._alarm = loop.call_later(left, self._on_max_wait)
        return True

    def _on_max_wait(self) -> None:
        self._alarm = None
        self._begin()

    def _take(self, most: int) -> list[_Waiting[Item, Result]]:
        batch: list[_Waiting[Item, Result]] = []
        weight = 0
        while self._waiting and (not batch or weight + self._waiting[0].weight <= most):
            first = self._waiting.popleft()
            self._weight -= first.weight
            if first.answer.done():
                self._stats.abandoned += 1
                continue
            batch.append(first)
            weight += first.weight
        self._stats.weight += weight
        return batch

    def _start(self, batch: list[_Waiting[Item, Result]]) -> None:
        self._in_work += 1
        self._stats.batches += 1
        try:
            results = self._work([each.item for each in batch])
        except Exception as error:
            self._in_work -= 1
            _fail(batch, error)
            return
        results.add_done_callback(lambda done: self._finish(batch, done))

    def _finish(
        self, batch: list[_Waiting[Item, Result]], done: "asyncio.Future[list[Result | Exception]]"
    ) -> None:
        self._in_work -= 1
        self._begin()  # first, to keep threads busy while answers are serialized
        if done.cancelled():
            for each in batch:
                each.answer.cancel()
            return
        error = done.exception()
        if error is not None:
            _fail(batch, error)
            return
        for each, result in zip(batch, done.result(), strict=True):
            if each.answer.done():
                continue
            if isinstance(result, Exception):
                each.answer.set_exception(result)
            else:
                each.answer.set_result(result)


def _fail(batch: "list[_Waiting[Item, Result]]", error: BaseException) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(error)
