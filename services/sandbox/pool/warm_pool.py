"""The slots of one profile, kept with a fresh sandbox waiting in each."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from services.sandbox.execution import SandboxFailure
from services.sandbox.pool.slot import Slot

logger = logging.getLogger(__name__)

_CLOSED = "the sandbox is being shut down"


class Shelf:
    """Hands out slots that are ready; makes more, up to ``most``, when there is none."""

    def __init__(self, most: int, make: Callable[[], Awaitable[Slot]]) -> None:
        self._most = most
        self._make = make
        self._slots = set[Slot]()
        self._in_the_making = 0
        self._ready: list[Slot] = []
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._tasks = set[asyncio.Task[None]]()
        self._closed = False

    async def take(self) -> Slot:
        """A ready slot, to be given back; raises `SandboxFailure`."""
        if self._closed:
            raise SandboxFailure(_CLOSED)
        while self._ready:
            slot = self._ready.pop()
            if slot.is_alive():
                return slot
            self._in_background(self._exchange(slot))
        place: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._make_what_is_missing()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._hand_out(place.result())
            raise

    def give_back(self, slot: Slot) -> None:
        """Take a slot back after a run; it prepares its next sandbox by itself."""
        slot.last_used = time.monotonic()
        self._in_background(self._prepare(slot))

    async def retire(self, unused_since: float) -> None:
        """End slots that nobody wanted for long."""
        old = [slot for slot in self._ready if slot.last_used < unused_since]
        self._ready = [slot for slot in self._ready if slot not in old]
        await asyncio.gather(*(self._exchange(slot) for slot in old))

    async def close(self) -> None:
        """End all slots and what runs in them; who waits for one gets `SandboxFailure`."""
        self._closed = True
        self._disappoint(_CLOSED)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(slot) for slot in list(self._slots)))

    def _make_what_is_missing(self) -> None:
        """Make slots for those who wait, as far as there may be more."""
        waiting = sum(not place.done() for place in self._waiting)
        room = self._most - len(self._slots) - self._in_the_making
        for _ in range(min(waiting - self._in_the_making, room)):
            self._in_the_making += 1
            self._in_background(self._add())

    async def _add(self) -> None:
        failure: Exception | None = None
        try:
            slot = await self._make()
        except Exception as error:  # whatever it is, nobody shall wait for ever
            failure = error
        finally:
            self._in_the_making -= 1
        if failure is not None:
            self._refuse(failure)
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
            await self._exchange(slot)
        else:
            self._hand_out(slot)

    async def _exchange(self, slot: Slot) -> None:
        """End a slot, which leaves room for another."""
        await self._end(slot)
        self._make_what_is_missing()

    def _hand_out(self, slot: Slot) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(slot)
                return
        self._ready.append(slot)

    def _refuse(self, error: Exception) -> None:
        """No slot can be made: tell those who wait, unless another will come to them."""
        if self._slots or self._in_the_making:
            logger.warning("no further slot: %s", error)
            return
        self._disappoint(f"no sandbox can be made: {error}")

    def _disappoint(self, reason: str) -> None:
        for place in self._waiting:
            if not place.done():
                place.set_exception(SandboxFailure(reason))
        self._waiting.clear()

    async def _end(self, slot: Slot) -> None:
        try:
            await slot.close()
        except Exception:
            logger.exception("slot %d does not end", slot.number)
        self._slots.discard(slot)  # no earlier: until then its number is taken

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
