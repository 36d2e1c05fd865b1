"""The bound on bytes held for all clients."""

import asyncio

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import GatewayTimeout
from services.sandbox import in_flight
from services.sandbox.in_flight import PIECE_BYTES, InFlightBytes

LIMIT = 100


class Held:
    """An application that reads a body, waits for permission, and responds."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer
        self.has_read = asyncio.Event()
        self.may_go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        self.has_read.set()
        await self.may_go.wait()
        await send({"type": "http.response.body", "body": bytes(self.answer)})


async def ask(app: ASGIApp, *chunks: int, taken: asyncio.Event | None = None) -> None:
    """Send a body of chunks of so many bytes, and take the answer when it is ``taken``."""
    waiting: list[Message] = [
        {"type": "http.request", "body": bytes(size), "more_body": True} for size in chunks
    ]
    waiting.append({"type": "http.request", "body": b""})

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(_message: Message) -> None:
        if taken is not None:
            await taken.wait()

    await app({"type": "http", "path": "/"}, receive, send)


def test_concurrent_requests_over_the_byte_limit_are_rejected_until_others_finish() -> None:
    async def run() -> None:
        application = Held()
        app = InFlightBytes(application, limit=LIMIT)
        first = asyncio.ensure_future(ask(app, 30, 30))
        await application.has_read.wait()

        for _ in range(3):
            with pytest.raises(GatewayTimeout, match="responses in memory have reached"):
                await ask(app, 30, 11)

        application.may_go.set()
        await first
        await ask(app, 50, 50)

    asyncio.run(run())


def test_a_response_counts_until_it_is_sent() -> None:
    async def run() -> None:
        application = Held(answer=90)
        application.may_go.set()
        app = InFlightBytes(application, limit=LIMIT)
        slowly = asyncio.Event()
        sending = asyncio.ensure_future(ask(app, taken=slowly))
        await application.has_read.wait()
        await asyncio.sleep(0)
        with pytest.raises(GatewayTimeout):
            await ask(app, 20)
        slowly.set()
        await sending
        await ask(app, 20)

    asyncio.run(run())


class Answering:
    """An application that answers so many bytes, announced by their length."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await Response(bytes(self.size))(scope, receive, send)


async def _no_request() -> Message:
    return {"type": "http.request", "body": b""}


def test_a_response_beyond_the_limit_becomes_an_error() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    app = InFlightBytes(Answering(LIMIT + 1), limit=LIMIT)
    asyncio.run(app({"type": "http", "path": "/"}, _no_request, send))

    assert sent[0]["status"] == 504
    assert b"too_busy" in sent[1]["body"]


def test_unread_responses_count_and_are_sent_in_pieces() -> None:
    async def run() -> None:
        size = 5 * PIECE_BYTES + 1
        app = InFlightBytes(Answering(size), limit=size + LIMIT)
        pieces: list[int] = []
        is_sending, may_read = asyncio.Event(), asyncio.Event()

        async def send(message: Message) -> None:
            if "body" in message:
                pieces.append(len(message["body"]))
                is_sending.set()
                await may_read.wait()

        unread = asyncio.ensure_future(app({"type": "http", "path": "/"}, _no_request, send))
        await is_sending.wait()
        with pytest.raises(GatewayTimeout):
            await ask(app, LIMIT + 1)
        may_read.set()
        await unread
        await ask(app, LIMIT + 1)
        assert pieces == [*[PIECE_BYTES] * 5, 1]

    asyncio.run(run())


def test_a_stalled_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "BODY_SECONDS", 0.01)

    async def stall() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(_message: Message) -> None: ...

    async def read(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()

    with pytest.raises(GatewayTimeout, match="stalled"):
        asyncio.run(InFlightBytes(read, limit=LIMIT)({"type": "http"}, stall, send))
