"""What clients see when a tool service is unavailable, disconnects or hangs."""

import contextlib
import http.client
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from services.contracts.stack import ServiceCondition, ServiceStatus
from temper.stack.services import Service
from tests.support.stack_record import record_stack
from tests.support.waiting import wait_for
from tests.unit.api.tool_upstream import (
    ANSWER,
    STEP_SECONDS,
    Exchange,
    ToolUpstream,
    answering,
    running_api,
    running_upstream,
)


@pytest.fixture
def upstream() -> Iterator[ToolUpstream]:
    with running_upstream() as upstream:
        yield upstream


Start = Callable[..., httpx.Client]


@pytest.fixture
def start(upstream: ToolUpstream, tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway with the given settings and returns a client of it."""
    with contextlib.ExitStack() as stack:

        def started(**settings: object) -> httpx.Client:
            url = stack.enter_context(
                running_api(tmp_path / "home", {"sandbox_url": upstream.url, **settings})
            )
            return stack.enter_context(httpx.Client(base_url=url, timeout=STEP_SECONDS))

        yield started


def drop_connection(exchange: Exchange) -> None:
    """Close the connection immediately, as a killed process does."""
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.connection.close()
    exchange.close_connection = True


def error_of(answer: httpx.Response) -> dict[str, str]:
    error: dict[str, str] = answer.json()["error"]
    return error


def test_the_error_for_an_unavailable_service_says_how_to_start_it(start: Start) -> None:
    with socket.socket() as kept:  # reserves a port without listening on it
        kept.bind(("127.0.0.1", 0))
        client = start(sandbox_url=f"http://127.0.0.1:{kept.getsockname()[1]}")

        answer = client.post("/run_code", json={})

    assert answer.status_code == 503
    assert error_of(answer)["code"] == "sandbox_unavailable"
    assert "`temper serve sandbox` starts it" in error_of(answer)["message"]
    assert answer.headers["retry-after"]
    assert client.get("/readyz").status_code == 200  # jobs do not depend on it


def test_the_error_for_a_service_that_the_stack_cannot_start_says_so(
    start: Start, tmp_path: Path
) -> None:
    failed = ServiceCondition(status=ServiceStatus.FAILED, exits=7, reason="log: /secret")
    (tmp_path / "home").mkdir()
    record_stack(tmp_path / "home", os.getppid(), {Service.SANDBOX: failed})
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        client = start(sandbox_url=f"http://127.0.0.1:{kept.getsockname()[1]}")

        message = error_of(client.post("/run_code", json={}))["message"]

    trouble = "it does not run: failed (exits: 7); GET /v1/services says why"
    assert message == f"the sandbox cannot be reached: {trouble}"


def test_requests_succeed_once_the_service_is_back(start: Start, upstream: ToolUpstream) -> None:
    client = start()
    assert client.post("/run_code", json={}).content == ANSWER
    upstream.behavior = drop_connection
    assert client.post("/run_code", json={}).status_code == 502
    upstream.behavior = answering()

    assert client.post("/run_code", json={}).content == ANSWER


def test_a_service_that_crashes_before_responding_is_a_bad_gateway(
    start: Start, upstream: ToolUpstream
) -> None:
    def behave(exchange: Exchange) -> None:
        exchange.read_body()
        drop_connection(exchange)

    upstream.behavior = behave

    answer = start().post("/run_code", json={})

    assert answer.status_code == 502
    assert error_of(answer)["code"] == "bad_gateway"
    assert upstream.url not in answer.text


@pytest.mark.parametrize("framing", [{"content_length": "1000"}, {"transfer_encoding": "chunked"}])
def test_a_partial_response_is_not_mistaken_for_a_complete_one(
    start: Start, upstream: ToolUpstream, framing: dict[str, str]
) -> None:
    seen = threading.Event()

    def behave(exchange: Exchange) -> None:
        exchange.read_body()
        exchange.begin(200, **framing)
        half = b'{"status": "Success", '
        if "content_length" in framing:
            exchange.wfile.write(half)
        else:
            exchange.send_chunk(half)
        seen.wait(STEP_SECONDS)  # the client has received the beginning
        drop_connection(exchange)

    upstream.behavior = behave
    with start().stream("POST", "/run_code", json={}) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        assert next(pieces)
        seen.set()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)


def test_a_hanging_service_is_a_gateway_timeout(start: Start, upstream: ToolUpstream) -> None:
    over = threading.Event()

    def behave(_: Exchange) -> None:
        over.wait(STEP_SECONDS)

    upstream.behavior = behave

    answer = start(tool_call_seconds=0.2).post("/run_code", json={})

    over.set()
    assert answer.status_code == 504
    assert error_of(answer)["code"] == "timed_out"
    assert answer.headers["retry-after"]


def test_a_client_disconnect_cancels_the_upstream_request(
    start: Start, upstream: ToolUpstream
) -> None:
    working, ended = threading.Event(), threading.Event()

    def behave(exchange: Exchange) -> None:
        exchange.read_body()
        working.set()
        assert exchange.rfile.read(1) == b""  # until the connection ends
        ended.set()

    upstream.behavior = behave
    url = start().base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=STEP_SECONDS)
    connection.request("POST", "/run_code", b"{}")
    assert working.wait(STEP_SECONDS)
    assert not ended.is_set()

    connection.close()

    assert ended.wait(STEP_SECONDS)


def test_a_client_disconnect_during_upload_cancels_the_upstream_request(
    start: Start, upstream: ToolUpstream
) -> None:
    came, ended = threading.Event(), threading.Event()

    def behave(exchange: Exchange) -> None:
        came.set()
        assert exchange.rfile.read(1000) == b"the beginning"
        ended.set()

    upstream.behavior = behave
    url = start().base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=STEP_SECONDS)
    connection.putrequest("POST", "/run_code")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"the beginning")
    assert came.wait(STEP_SECONDS)

    connection.close()

    assert ended.wait(STEP_SECONDS)


def test_backpressure_from_the_client_reaches_the_service(
    start: Start, upstream: ToolUpstream
) -> None:
    """The gateway does not buffer what the service sends."""
    piece, most = bytes(1 << 16), 4000  # 250 MiB
    sent = 0
    stalled = threading.Event()

    def behave(exchange: Exchange) -> None:
        nonlocal sent
        exchange.read_body()
        exchange.begin(200, content_length=str(len(piece) * most))
        exchange.connection.settimeout(1.0)
        try:
            while sent < most:
                exchange.wfile.write(piece)
                sent += 1
        except TimeoutError:
            stalled.set()

    upstream.behavior = behave
    with start().stream("POST", "/run_code", json={}) as answer:
        assert answer.status_code == 200
        assert stalled.wait(STEP_SECONDS)
    assert sent < most


def test_calls_over_the_limit_are_rejected_with_retry_after(
    start: Start, upstream: ToolUpstream
) -> None:
    working, over = threading.Event(), threading.Event()

    def behave(exchange: Exchange) -> None:
        exchange.read_body()
        working.set()
        over.wait(STEP_SECONDS)
        exchange.begin(200, content_length="0")

    upstream.behavior = behave
    client = start(max_tool_calls=1)
    first = threading.Thread(target=lambda: client.post("/run_code", json={}))
    first.start()
    assert working.wait(STEP_SECONDS)

    refused = client.post("/run_code", json={})
    over.set()
    first.join(STEP_SECONDS)

    assert refused.status_code == 504
    assert refused.headers["retry-after"]
    assert wait_for(lambda: client.post("/run_code", json={}).status_code == 200, "there is room")


@pytest.mark.parametrize("declared", [True, False])
def test_an_oversized_request_is_rejected(
    start: Start, upstream: ToolUpstream, declared: bool
) -> None:
    body = json.dumps({"stdin": "x" * (3 << 20)}).encode()
    pieces = [body[:1000], body[1000:]]
    client = start(sandbox_max_body_bytes=1 << 20)

    answer = client.post("/run_code", content=body if declared else iter(pieces))

    assert answer.status_code == 413
    assert error_of(answer)["code"] == "payload_too_large"
    upstream.behavior = answering()
    assert client.post("/run_code", json={}).status_code == 200
