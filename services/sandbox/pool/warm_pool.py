"""A warm pool: the slots of one profile, each with a fresh sandbox waiting in it."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from services.sandbox.execution import SandboxFailure
from services.sandbox.pool.crowd import Occupant
from services.sandbox.pool.slot import Slot

logger = logging.getLogger(__name__)

_CLOSED = "the sandbox is being shut down"


class WarmPool:
    """Hands out ready slots; starts more, up to ``most``, on demand."""

    def __init__(self, most: int, make: Callable[[], Awaitable[Slot]]) -> None:
        self._most = most
        self._make = make
        self._slots = set[Slot]()
        self._starting = 0
        self._ready: list[Slot] = []
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._tasks = set[asyncio.Task[None]]()
        self._closed = False

    async def acquire(self) -> Slot:
        """Wait for a ready slot, to be returned with `release`; raises `SandboxFailure`."""
        if self._closed:
            raise SandboxFailure(_CLOSED)
        while self._ready:
            slot = self._ready.pop()
            if slot.is_alive():
                return slot
            self._in_background(self._replace(slot))
        place: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._start_missing()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._dispatch(place.result())
            raise

    def occupants(self) -> list[Occupant]:
        """The programs that run in its slots."""
        return [slot.occupant for slot in self._slots if slot.occupant is not None]

    def release(self, slot: Slot) -> None:
        """Return a slot after a run; it prepares its next sandbox in the background."""
        slot.last_used = time.monotonic()
        self._in_background(self._prepare(slot))

    async def retire(self, unused_since: float) -> None:
        """Close slots that have been idle since ``unused_since``."""
        old = [slot for slot in self._ready if slot.last_used < unused_since]
        self._ready = [slot for slot in self._ready if slot not in old]
        await asyncio.gather(*(self._replace(slot) for slot in old))

    async def close(self) -> None:
        """Close all slots and what runs in them; waiters get `SandboxFailure`."""
        self._closed = True
        self._fail_waiters(_CLOSED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(slot) for slot in list(self._slots)))

    def _start_missing(self) -> None:
        """Start slots for the waiters, up to the limit."""
        waiting = sum(not place.done() for place in self._waiting)
        room = self._most - len(self._slots) - self._starting
        for _ in range(min(waiting - self._starting, room)):
            self._starting += 1
            self._in_background(self._add())

    async def _add(self) -> None:
        failure: Exception | None = None
        try:
            slot = await self._make()
        except Exception as error:  # waiters must learn of any failure
            failure = error
        finally:
            self._starting -= 1
        if failure is not None:
            self._report_failed_start(failure)
            return
        self._slots.add(slot)
        await self._prepare(slot)

    async def _prepare(self, slot: Slot) -> None:
        try:
            if not slot.broken:
                await slot.prepare()
        except Exception as error:
            slot.broken = True
            logger.warning("slot %d: %s", slot.number, error)
        if slot.broken:
            await self._replace(slot)
        else:
            self._dispatch(slot)

    async def _replace(self, slot: Slot) -> None:
        """Close a slot, and start another one if there are waiters."""
        await self._end(slot)
        self._start_missing()

    def _dispatch(self, slot: Slot) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(slot)
                return
        self._ready.append(slot)

    def _report_failed_start(self, error: Exception) -> None:
        """A slot could not be started: fail the waiters, unless another slot will serve them."""
        if self._slots or self._starting:
            logger.warning("no further slot: %s", error)
            return
        self._fail_waiters(f"no sandbox could be created: {error}")

    def _fail_waiters(self, reason: str) -> None:
        for place in self._waiting:
            if not place.done():
                place.set_exception(SandboxFailure(reason))
        self._waiting.clear()

    async def _end(self, slot: Slot) -> None:
        try:
            await slot.close()
        except Exception:
            logger.exception("slot %d could not be closed", slot.number)
        self._slots.discard(slot)  # no earlier: until then its number is taken

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
