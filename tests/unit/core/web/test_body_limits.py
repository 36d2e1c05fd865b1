"""Limits on the size of bodies and on pauses."""

import asyncio
import json

import pytest
from starlette.types import Message, Receive, Scope, Send

from services.contracts.errors import InvalidRequest, PayloadTooLarge, TemperError
from services.core.web.body_limits import BodyLimits

LARGER = {"/large": 20, "/*/files/*": 20}
DISCONNECT: Message = {"type": "http.disconnect"}


def chunk(body: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


class Reader:
    """An application that reads the whole body, and then waits for the client to go."""

    def __init__(self) -> None:
        self.body = b""
        self.left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        while message["type"] == "http.request":
            self.body += message["body"]
            message = await receive()
        self.left = True


def read(
    messages: list[Message],
    *,
    path: str = "/",
    length: int | None = None,
    last_pause: float = 0.0,
    stall_seconds: float = 30.0,
) -> Reader:
    """Send messages through limits of 10 bytes, 20 for /large and the files of anything."""
    headers = [(b"content-length", str(length).encode())] if length is not None else []
    scope: Scope = {"type": "http", "path": path, "headers": headers}
    waiting = list(messages)

    async def receive() -> Message:
        if len(waiting) == 1:
            await asyncio.sleep(last_pause)
        return waiting.pop(0)

    async def send(_message: Message) -> None: ...

    reader = Reader()
    limits = BodyLimits(reader, larger=LARGER, max_bytes=10, stall_seconds=stall_seconds)
    asyncio.run(limits(scope, receive, send))
    return reader


def test_a_body_within_the_limit_passes() -> None:
    reader = read([chunk(b"12345"), chunk(b"67890", more=False), DISCONNECT], length=10)

    assert reader.body == b"1234567890"
    assert reader.left


@pytest.mark.parametrize("length", [None, 3, 11])
def test_a_body_over_the_limit_is_refused_regardless_of_its_declared_length(
    length: int | None,
) -> None:
    with pytest.raises(PayloadTooLarge):
        read([chunk(b"12345"), chunk(b"678901", more=False), DISCONNECT], length=length)


@pytest.mark.parametrize("path", ["/large", "/thing/files/deep/name"])
def test_a_path_may_have_a_larger_limit(path: str) -> None:
    messages = [chunk(b"x" * 20, more=False), DISCONNECT]

    assert read(messages, path=path, length=20).body == b"x" * 20
    with pytest.raises(PayloadTooLarge):
        read([chunk(b"x" * 21, more=False), DISCONNECT], path=path)


def test_a_stalled_body_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read([chunk(b"1"), chunk(b"2", more=False)], last_pause=30, stall_seconds=0.01)

    assert caught.value.code == "body_timeout"


def test_waiting_for_the_response_has_no_time_limit() -> None:
    reader = read([chunk(b"", more=False), DISCONNECT], last_pause=0.2, stall_seconds=0.01)

    assert reader.left


def test_a_disconnect_during_the_body_is_passed_on() -> None:
    try:
        assert read([chunk(b"1"), DISCONNECT]).left
    except TemperError as error:  # pragma: no cover
        pytest.fail(str(error))


def read_json(value: object) -> bytes:
    """What an application with the default limits reads of a JSON body."""
    reader, text = Reader(), json.dumps(value, separators=(",", ":")).encode()
    pieces = [chunk(text[:100_000]), chunk(text[100_000:], more=False), DISCONNECT]

    async def receive() -> Message:
        return pieces.pop(0)

    async def send(_: Message) -> None: ...

    scope: Scope = {"type": "http", "path": "/", "headers": []}
    asyncio.run(BodyLimits(reader, larger={})(scope, receive, send))
    return reader.body


@pytest.mark.parametrize(
    "value", [{f"{n:x}": 1 for n in range(380_000)}, [[]] * 30_000, [{}] * 30_000, [""] * 30_000]
)
def test_a_body_with_too_many_values_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="values"):
        read_json(value)


def test_text_with_many_commas_is_one_value() -> None:
    value = {"text": '[{"' + "," * 200_000 + "\\"}

    assert json.loads(read_json(value)) == value
