"""Merging what many requests want into batches, without making a lone one wait."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Work = Callable[[Sequence[Item]], "asyncio.Future[list[Result | Exception]]"]
"""Starts the work on a batch; its results, or errors, come in the order of the items."""


@dataclass
class BatchFigures:
    """What the batches have come to so far."""

    batches: int = 0
    weight: int = 0
    abandoned: int = 0


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item, Result]):
    item: Item
    weight: int
    since: float
    answer: "asyncio.Future[Result]"


class Batches(Generic[Item, Result]):
    """Batches of one kind of work; it belongs to one event loop.

    At most ``parallel`` are in work. What comes while there is room is begun at once; what comes
    while there is none is merged, and shared out when there is. When something is in work, less
    than a whole batch waits ``patience`` seconds for more. A batch weighs ``largest`` at most,
    unless a single item weighs more. An item whose answer was cancelled is never begun. All of
    it is counted in ``figures``.
    """

    def __init__(
        self,
        work: "Work[Item, Result]",
        figures: BatchFigures,
        *,
        parallel: int,
        largest: int,
        patience: float = 0.0,
    ) -> None:
        self._figures = figures
        self._work = work
        self._parallel = parallel
        self._largest = largest
        self._patience = patience
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._weight = 0
        self._in_work = 0
        self._alarm: asyncio.TimerHandle | None = None

    def submit(self, item: Item, weight: int = 1) -> "asyncio.Future[Result]":
        """What becomes of the item; cancelling it takes the item back if it still waits."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(item, weight, loop.time(), answer))
        self._weight += weight
        self._begin()
        return answer

    def _begin(self) -> None:
        """Begin as many batches as there is work and room for."""
        while self._waiting and self._in_work < self._parallel and not self._waits_for_more():
            share = -(-self._weight // (self._parallel - self._in_work))
            batch = self._take(min(share, self._largest))
            if batch:
                self._start(batch)

    def _waits_for_more(self) -> bool:
        if not (self._patience and self._in_work) or self._weight >= self._largest:
            return False
        loop = asyncio.get_running_loop()
        left = self._waiting[0].since + self._patience - loop.time()
        if left <= 0:
            return False
        if self._alarm is None:
            self._alarm = loop.call_later(left, self._after_patience)
        return True

    def _after_patience(self) -> None:
        self._alarm = None
        self._begin()

    def _take(self, most: int) -> list[_Waiting[Item, Result]]:
        batch: list[_Waiting[Item, Result]] = []
        weight = 0
        while self._waiting and (not batch or weight + self._waiting[0].weight <= most):
            first = self._waiting.popleft()
            self._weight -= first.weight
            if first.answer.done():
                self._figures.abandoned += 1
                continue
            batch.append(first)
            weight += first.weight
        self._figures.weight += weight
        return batch

    def _start(self, batch: list[_Waiting[Item, Result]]) -> None:
        self._in_work += 1
        self._figures.batches += 1
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
        self._begin()  # first, so that threads are busy while answers are written
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
