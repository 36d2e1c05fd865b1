"""Admission control: a bounded queue for programs, and a bound on the bytes of requests."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import GatewayTimeout

WATCHED_SECONDS = 5.0
"""The pace of the queue is taken over one to two such spans, and after the first of them."""
LONGEST_RETRY_AFTER = 30.0


class QueueFull(GatewayTimeout):
    """There is no free place for a program, and none will be in time."""

    code = "queue_full"


class Pace:
    """How fast the queue has been moving since there is one."""

    def __init__(self) -> None:
        self._earlier = self._since = math.inf
        self._turns_earlier = self._turns = 0

    def begin(self, now: float) -> None:
        """Somebody waits, after a time in which nobody did."""
        self._earlier = self._since = now
        self._turns_earlier = self._turns = 0

    def turn(self, now: float) -> None:
        """The first of the queue got a place."""
        if now - self._since > WATCHED_SECONDS:
            self._earlier, self._since = self._since, now
            self._turns_earlier, self._turns = self._turns, 0
        self._turns += 1

    def seconds_for(self, turns: int, now: float) -> float:
        """How long so many turns take, to go by what was seen; 0 while little was.

        It is a low guess: what has just begun to move has moved once more than was seen.
        """
        watched = now - self._earlier
        if watched < WATCHED_SECONDS:
            return 0.0
        return turns * watched / (self._turns_earlier + self._turns + 1)


@dataclass
class Figures:
    """What the queue has come to so far."""

    refused_at_once: int = 0
    refused_after_waiting: int = 0


class Admission:
    """Places for programs, given in the order in which they were asked for.

    It belongs to one event loop, whose clock it goes by.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.figures = Figures()
        self._free = places
        self._waiting: dict[asyncio.Future[None], None] = {}  # in order of arrival
        self._all_free = asyncio.Event()
        self._pace = Pace()

    @property
    def running(self) -> int:
        """Places that are taken."""
        return self.places - self._free

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @asynccontextmanager
    async def place(self, patience: float) -> AsyncIterator[None]:
        """Hold a place, after at most ``patience`` seconds; raises `QueueFull`.

        Whoever is cancelled while waiting leaves the queue.
        """
        await self.enter(patience)
        try:
            yield
        finally:
            self.leave()

    async def enter(self, patience: float) -> None:
        """Take a place, to be given back by `leave`; raises `QueueFull`."""
        if self._free:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._check_patience(patience, now)
        if not self._waiting:
            self._pace.begin(now)
        turn = loop.create_future()
        self._waiting[turn] = None
        alarm = loop.call_later(patience, self._give_up, turn, patience)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # the place came in the same moment
            raise
        finally:
            alarm.cancel()
            self._waiting.pop(turn, None)

    def leave(self) -> None:
        """Give a place back: to the first in the queue, if there is one."""
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():  # cancelled, and about to leave by itself
                self._pace.turn(turn.get_loop().time())
                turn.set_result(None)
                return
        self._free += 1
        if self._free == self.places:
            self._all_free.set()

    async def drained(self) -> None:
        """Wait until no place is taken."""
        while self.running:
            self._all_free.clear()
            await self._all_free.wait()

    def _check_patience(self, patience: float, now: float) -> None:
        expected = self._pace.seconds_for(len(self._waiting) + 1, now) if self._waiting else 0.0
        if expected > patience or patience <= 0:
            self.figures.refused_at_once += 1
            raise QueueFull(
                f"all {self.places} places are taken and {len(self._waiting)} requests wait: "
                f"about {expected:.0f} s, too long for this one's time limits",
                retry_after=min(LONGEST_RETRY_AFTER, max(1.0, expected - patience)),
            )

    def _give_up(self, turn: asyncio.Future[None], patience: float) -> None:
        if not turn.done():
            self._waiting.pop(turn, None)
            self.figures.refused_after_waiting += 1
            turn.set_exception(
                QueueFull(f"no place came free within {patience:.0f} s", retry_after=1.0)
            )


class HeldBytes:
    """ASGI middleware that refuses to read more when what is held has reached ``limit``.

    A request counts from its first byte until its answer is sent, and so does the answer.
    """

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its reader gets the error."""
        mine = 0

        async def receive_counted() -> Message:
            nonlocal mine
            message = await receive()
            count = len(message.get("body", b""))
            if count and self._held + count > self._limit:
                raise GatewayTimeout("the service holds all the requests it can", code="too_busy")
            self._held += count
            mine += count
            return message

        async def send_counted(message: Message) -> None:
            count = len(message.get("body", b""))
            self._held += count
            try:
                await send(message)
            finally:
                self._held -= count

        try:
            await self._app(scope, receive_counted, send_counted)
        finally:
            self._held -= mine
