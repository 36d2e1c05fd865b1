"""Admission control: a bounded queue for programs, and a bound on bytes held in memory.

The queue rejects early: a request is refused when its expected wait exceeds its queue timeout.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import GatewayTimeout
from services.core.web.errors import error_answer

WATCHED_SECONDS = 5.0
"""Window of the throughput estimate: it covers one to two of these, once the first has passed."""
LONGEST_RETRY_AFTER = 30.0
PIECE_BYTES = 1 << 18
BODY_SECONDS = 60.0
"""A request whose body makes no progress for longer is rejected."""


class QueueFull(GatewayTimeout):
    """No slot is free, and none is expected before the queue timeout."""

    code = "queue_full"


class ThroughputEstimate:
    """Estimates how fast the queue moves, from the grants of the last seconds."""

    def __init__(self) -> None:
        self._earlier = self._since = math.inf
        self._turns_earlier = self._turns = 0

    def begin(self, now: float) -> None:
        """Start measuring: the queue was empty before."""
        self._earlier = self._since = now
        self._turns_earlier = self._turns = 0

    def grant(self, now: float) -> None:
        """Count a grant."""
        if now - self._since > WATCHED_SECONDS:
            self._earlier, self._since = self._since, now
            self._turns_earlier, self._turns = self._turns, 0
        self._turns += 1

    def seconds_for(self, turns: int, now: float) -> float:
        """Estimated wait for `grants` slots at the recent rate; 0 until enough samples.

        Deliberately a low estimate: one more grant is assumed than was seen.
        """
        watched = now - self._earlier
        if watched < WATCHED_SECONDS:
            return 0.0
        return turns * watched / (self._turns_earlier + self._turns + 1)


@dataclass
class QueueStats:
    """How many requests the queue has refused."""

    refused_at_once: int = 0
    refused_after_waiting: int = 0


class Admission:
    """Slots for programs, granted in order of arrival. Belongs to one event loop."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.stats = QueueStats()
        self._free = slots
        self._waiting: dict[asyncio.Future[None], None] = {}  # in order of arrival
        self._all_free = asyncio.Event()
        self._throughput = ThroughputEstimate()

    @property
    def running(self) -> int:
        """Slots in use."""
        return self.slots - self._free

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @asynccontextmanager
    async def permit(self, queue_timeout: float) -> AsyncIterator[None]:
        """Hold a slot, waiting at most ``queue_timeout`` seconds; raises `QueueFull`.

        A request that is cancelled while it waits leaves the queue.
        """
        await self.acquire(queue_timeout)
        try:
            yield
        finally:
            self.release()

    async def acquire(self, queue_timeout: float) -> None:
        """Acquire a slot, to be returned with `release`; raises `QueueFull`."""
        if self._free:
            self._free -= 1
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._check_expected_wait(queue_timeout, now)
        if not self._waiting:
            self._throughput.begin(now)
        grant = loop.create_future()
        self._waiting[grant] = None
        alarm = loop.call_later(queue_timeout, self._expire, grant, queue_timeout)
        try:
            await grant
        except asyncio.CancelledError:
            if grant.done() and not grant.cancelled() and grant.exception() is None:
                self.release()  # granted at the same moment
            raise
        finally:
            alarm.cancel()
            self._waiting.pop(grant, None)

    def release(self) -> None:
        """Return a slot, to the head of the queue if there is one."""
        while self._waiting:
            grant = next(iter(self._waiting))
            del self._waiting[grant]
            if not grant.done():  # cancelled, and about to leave the queue
                self._throughput.grant(grant.get_loop().time())
                grant.set_result(None)
                return
        self._free += 1
        if self._free == self.slots:
            self._all_free.set()

    async def drained(self) -> None:
        """Wait until every slot is free."""
        while self.running:
            self._all_free.clear()
            await self._all_free.wait()

    def _check_expected_wait(self, queue_timeout: float, now: float) -> None:
        expected = (
            self._throughput.seconds_for(len(self._waiting) + 1, now) if self._waiting else 0.0
        )
        if expected > queue_timeout or queue_timeout <= 0:
            self.stats.refused_at_once += 1
            raise QueueFull(
                f"all {self.slots} slots are taken and {len(self._waiting)} requests are waiting: "
                f"about {expected:.0f} s, longer than this request can wait",
                retry_after=min(LONGEST_RETRY_AFTER, max(1.0, expected - queue_timeout)),
            )

    def _expire(self, grant: asyncio.Future[None], queue_timeout: float) -> None:
        if not grant.done():
            self._waiting.pop(grant, None)
            self.stats.refused_after_waiting += 1
            grant.set_exception(
                QueueFull(f"no slot became free within {queue_timeout:.0f} s", retry_after=1.0)
            )


class InFlightBytes:
    """ASGI middleware that bounds the bytes of all requests and responses in memory by ``limit``.

    A request counts from its first byte until its response is sent; a response counts until the
    client has read it. What exceeds the limit becomes `GatewayTimeout`.
    """

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; reading its body raises `GatewayTimeout` at the limit."""
        exchange = _Exchange(self, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
            if exchange.refusal is not None:
                await error_answer(exchange.refusal)(scope, receive, send)
        finally:
            self._in_flight -= exchange.held

    def reserve(self, count: int) -> None:
        """Count bytes; raises `GatewayTimeout` if they exceed the limit."""
        if count and self._in_flight + count > self._limit:
            raise GatewayTimeout(
                "requests and responses in memory have reached the limit", code="too_busy"
            )
        self._in_flight += count

    def add(self, count: int) -> None:
        """Count bytes that are there in any case."""
        self._in_flight += count

    def release(self, count: int) -> None:
        """Stop counting bytes."""
        self._in_flight -= count


class _Exchange:
    """One request and its response: ``held`` bytes count until its end.

    ``refusal`` is set if the response does not fit; the application's is dropped then.
    """

    def __init__(self, budget: InFlightBytes, receive: Receive, send: Send) -> None:
        self.held = 0
        self.refusal: GatewayTimeout | None = None
        self._budget = budget
        self._receive = receive
        self._send = send
        self._body_is_complete = False
        self._length: int | None = None

    async def receive(self) -> Message:
        timeout = None if self._body_is_complete else BODY_SECONDS
        try:
            async with asyncio.timeout(timeout):
                message = await self._receive()
        except TimeoutError:
            raise GatewayTimeout("the request's body has stalled", code="body_stalled") from None
        self._body_is_complete = not message.get("more_body", False)
        self._hold(len(message.get("body", b"")))
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None:
            return
        if message["type"] == "http.response.start":
            self._length = _content_length(message)
            try:
                self._hold(self._length or 0)
            except GatewayTimeout as refusal:
                self.refusal = refusal
                return
            await self._send(message)
        else:
            await self._send_body(message, message.get("body", b""))

    async def _send_body(self, message: Message, body: bytes) -> None:
        """Send at the client's pace, so that the server buffers no more than a piece."""
        unannounced = len(body) if self._length is None else 0
        self._budget.add(unannounced)
        try:
            for at in range(0, max(1, len(body)), PIECE_BYTES):
                more = message.get("more_body", False) or at + PIECE_BYTES < len(body)
                piece = body[at : at + PIECE_BYTES]
                await self._send({**message, "body": piece, "more_body": more})
        finally:
            self._budget.release(unannounced)

    def _hold(self, count: int) -> None:
        self._budget.reserve(count)
        self.held += count


def _content_length(start: Message) -> int | None:
    length = dict(start.get("headers", ())).get(b"content-length")
    return None if length is None else int(length)
