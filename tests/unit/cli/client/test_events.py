import json
from collections.abc import Callable, Iterator

import pytest
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from temper.client import ApiError, Temper, UnexpectedAnswer, Unreachable
from temper.client.events import EventStream
from temper.client.transport import Transport
from tests.unit.cli.conftest import ScriptedServer

PATH = "/v1/jobs/j/events"


def event(number: int) -> str:
    body = {
        "id": f"e-{number}",
        "created_at": 1,
        "level": "info",
        "message": f"message {number}",
        "type": "message",
    }
    return f"id: e-{number}\ndata: {json.dumps(body)}\n\n"


def stream(*parts: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return StreamingResponse(iter(parts), media_type="text/event-stream")

    return answer


def broken(*parts: str) -> Callable[[Request], Response]:
    def body() -> Iterator[str]:
        yield from parts
        raise ConnectionResetError("the gateway was killed")

    def answer(_: Request) -> Response:
        return StreamingResponse(body(), media_type="text/event-stream")

    return answer


def test_events_are_yielded_until_done(client: Temper, server: ScriptedServer) -> None:
    server.on(PATH, stream(event(1), ": ping\n\n", event(2), "data: [DONE]\n\n"))

    assert [e.id for e in client.jobs.follow("j")] == ["e-1", "e-2"]


def test_a_broken_stream_resumes_after_the_last_event(
    client: Temper, server: ScriptedServer
) -> None:
    server.on(PATH, broken(event(1), event(2)), stream(event(3), "data: [DONE]\n\n"))

    assert [e.id for e in client.jobs.follow("j")] == ["e-1", "e-2", "e-3"]
    assert server.received[1].headers["last-event-id"] == "e-2"


def test_a_stream_that_ends_early_is_resumed(client: Temper, server: ScriptedServer) -> None:
    server.on(PATH, stream(event(1)), stream(event(1), event(2), "data: [DONE]\n\n"))

    assert [e.id for e in client.jobs.follow("j")] == ["e-1", "e-2"]


def test_a_busy_gateway_is_retried(client: Temper, server: ScriptedServer) -> None:
    server.on(PATH, Response(status_code=503), stream("data: [DONE]\n\n"))

    assert list(client.jobs.follow("j")) == []


def test_following_can_start_after_an_event(client: Temper, server: ScriptedServer) -> None:
    server.on(PATH, stream("data: [DONE]\n\n"))

    assert list(client.jobs.follow("j", after="e-7")) == []
    assert server.received[0].headers["last-event-id"] == "e-7"


def test_following_a_missing_job_fails(client: Temper) -> None:
    with pytest.raises(ApiError) as caught:
        list(client.jobs.follow("j"))

    assert caught.value.status == 404


def test_a_response_that_is_not_an_event_stream_is_reported(
    client: Temper, server: ScriptedServer
) -> None:
    server.on(PATH, JSONResponse({}))

    with pytest.raises(UnexpectedAnswer):
        list(client.jobs.follow("j"))


def test_following_gives_up_on_an_unreachable_gateway() -> None:
    transport = Transport("http://127.0.0.1:1", None)

    with pytest.raises(Unreachable):
        list(EventStream(transport, PATH, None, give_up_after=0.0))
