"""Requests to tool services are forwarded unchanged, and so are their responses."""

import base64
import gzip
import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from services.api import proxy as upstream_module
from services.api.proxy import ToolService
from services.api.settings import ApiSettings
from services.api.tool_routes import retrieval, sandbox
from services.contracts.sandbox.scripts import SCRIPT_KEY_HEADER
from services.core.web.auth import hash_key
from services.core.web.relay import request_headers, response_headers
from tests.unit.api.tool_upstream import (
    ANSWER,
    STEP_SECONDS,
    Exchange,
    ToolUpstream,
    answering,
    running_api,
    running_upstream,
)

KEY = "temper-client-key"
OWN_KEY = "temper-gateway-key"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def shared_upstream() -> Iterator[ToolUpstream]:
    with running_upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def gateway(
    shared_upstream: ToolUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    settings = {
        "sandbox_url": shared_upstream.url,
        "sandbox_api_key": OWN_KEY,
        "api_key_hashes": hash_key(KEY),
    }
    with pytest.MonkeyPatch.context() as patch:
        # Keep connections open however long a test pauses between requests.
        patch.setattr(upstream_module, "IDLE_SECONDS", STEP_SECONDS / 2)
        with running_api(tmp_path_factory.mktemp("gateway"), settings) as url:
            yield url


@pytest.fixture
def upstream(shared_upstream: ToolUpstream) -> ToolUpstream:
    shared_upstream.behavior = answering()
    shared_upstream.received.clear()
    return shared_upstream


@pytest.fixture
def http_client(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, headers=BEARER, timeout=STEP_SECONDS) as client:
        yield client


@pytest.fixture
def connection(gateway: str) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(gateway.partition("//")[2], timeout=STEP_SECONDS)
    yield connection
    connection.close()


@pytest.mark.parametrize("path", ["/run_code", "/run_jupyter", "/v1/run_cases"])
def test_requests_and_responses_are_forwarded_unchanged(
    upstream: ToolUpstream, http_client: httpx.Client, path: str
) -> None:
    body = b'{"code": "\xff", "unknown": 1'  # forwarded as is: the service validates it

    answer = http_client.post(path, content=body, headers={"Content-Type": "application/json"})

    (received,) = upstream.received
    assert (received.path, received.body) == (path, body)
    assert received.headers["content-type"] == "application/json"
    assert (answer.status_code, answer.content) == (200, ANSWER)


@pytest.mark.parametrize("status", [201, 307, 400, 401, 422, 429, 500, 503, 504])
def test_every_status_is_returned_with_its_headers(
    upstream: ToolUpstream, http_client: httpx.Client, status: int
) -> None:
    upstream.behavior = answering(
        status, b"why", Retry_After="7", X_Request_Id="not-this", Location="http://127.0.0.1:9/"
    )

    answer = http_client.post("/run_code", content=b"{}")

    assert (answer.status_code, answer.content) == (status, b"why")
    assert answer.headers["retry-after"] == "7"
    for single in ("date", "server", "x-request-id", "content-length"):
        assert len(answer.headers.get_list(single)) == 1
    assert answer.headers["x-request-id"] != "not-this"


def test_an_empty_response_is_returned(upstream: ToolUpstream, http_client: httpx.Client) -> None:
    upstream.behavior = answering(200, b"")

    assert http_client.post("/run_code").content == b""
    assert upstream.received[0].body == b""


def test_a_compressed_response_is_not_decoded(
    upstream: ToolUpstream, http_client: httpx.Client
) -> None:
    packed = gzip.compress(b"a" * 1000)
    upstream.behavior = answering(200, packed, Content_Encoding="gzip")

    answer = http_client.post("/run_code", headers={"Accept-Encoding": "gzip"})

    assert upstream.received[0].headers["accept-encoding"] == "gzip"
    assert answer.headers["content-length"] == str(len(packed))
    assert answer.content == b"a" * 1000


def test_credentials_and_cookies_for_the_gateway_do_not_reach_the_service(
    upstream: ToolUpstream, http_client: httpx.Client
) -> None:
    http_client.post(
        "/run_code",
        headers={"Cookie": "a=b", "Proxy-Authorization": "Basic eDp5", "X-Request-Id": "mine"},
        content=b"{}",
    )

    received = upstream.received[0].headers
    assert received["authorization"] == f"Bearer {OWN_KEY}"
    assert received["host"] == upstream.url.partition("//")[2]
    assert received["x-request-id"] == "mine"
    assert KEY not in str(received)
    assert received.keys().isdisjoint({"cookie", "proxy-authorization"})


@pytest.mark.parametrize("tool", [sandbox, retrieval])
def test_no_key_of_a_client_reaches_a_tool_service(
    tmp_path: Path, upstream: ToolUpstream, tool: Callable[[ApiSettings], ToolService]
) -> None:
    settings = {
        "sandbox_url": upstream.url,
        "retrieval_url": upstream.url,
        "api_key_hashes": hash_key(KEY),
    }
    basic = base64.b64encode(f"x:{KEY}".encode()).decode()
    script = {SCRIPT_KEY_HEADER: KEY}
    ways = [{"x-api-key": KEY}, {"X-Api-Key": KEY, **BEARER}, {"Authorization": f"Basic {basic}"}]
    paths = [route.path for route in tool(ApiSettings(home=tmp_path)).routes]
    with running_api(tmp_path, settings) as url:
        for path in paths:
            for way in ways:
                answer = httpx.post(url + path, content=b"{}", headers={**way, **script})
                assert answer.status_code == 200

    assert len(upstream.received) == len(paths) * len(ways)
    for received in upstream.received:
        sent = str(received.headers)
        assert KEY not in sent
        assert basic not in sent


def test_hop_by_hop_headers_are_not_forwarded() -> None:
    headers = [
        (b"Connection", b"keep-alive, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"TE", b"trailers"),
        (b"Upgrade", b"websocket"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"9"),  # must not override the header above
        (b"X-Kept", b"\xe9"),
    ]

    assert request_headers(headers) == [("x-kept", "\xe9")]
    assert response_headers(headers) == [(b"x-kept", b"\xe9")]


def test_requests_reuse_a_connection(upstream: ToolUpstream, http_client: httpx.Client) -> None:
    for _ in range(3):
        http_client.post("/run_code", content=b"{}")

    assert len({received.client for received in upstream.received}) == 1


@pytest.mark.parametrize("credentials", [BEARER["Authorization"], "Basic", None])
def test_a_key_is_accepted_as_bearer_token_and_as_url_password(
    upstream: ToolUpstream, gateway: str, credentials: str | None
) -> None:
    if credentials == "Basic":
        credentials = f"Basic {base64.b64encode(f'x:{KEY}'.encode()).decode()}"
    headers = {"Authorization": credentials} if credentials else {}

    url = f"{gateway}/run_code"
    answer = httpx.post(url, content=b"{}", headers=headers, timeout=STEP_SECONDS)

    assert answer.status_code == (200 if credentials else 401)
    assert len(upstream.received) == (1 if credentials else 0)
    if credentials is None:
        assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_key_in_the_url_is_accepted_for_tools_only(gateway: str) -> None:
    answer = httpx.get(f"{gateway}/v1/jobs", auth=("x", KEY), timeout=STEP_SECONDS)

    assert answer.status_code == 401


def test_request_bodies_are_streamed_to_the_service(
    upstream: ToolUpstream, connection: http.client.HTTPConnection
) -> None:
    first_came = threading.Event()
    pieces = []

    def behave(exchange: Exchange) -> None:
        while piece := exchange.read_piece():
            pieces.append(piece)
            first_came.set()
        exchange.begin(200, content_length="0")

    upstream.behavior = behave
    connection.putrequest("POST", "/run_code")
    for name, value in {**BEARER, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"5\r\nfirst\r\n")
    assert first_came.wait(STEP_SECONDS)
    connection.send(b"6\r\nsecond\r\n0\r\n\r\n")

    assert connection.getresponse().status == 200
    assert pieces == [b"first", b"second"]


def test_response_bodies_are_streamed_to_the_client(
    upstream: ToolUpstream, connection: http.client.HTTPConnection
) -> None:
    first_was_read = threading.Event()

    def behave(exchange: Exchange) -> None:
        exchange.read_body()
        exchange.begin(200, transfer_encoding="chunked")
        exchange.send_chunk(b"first")
        if first_was_read.wait(STEP_SECONDS):
            exchange.send_chunk(b"second")
        exchange.send_chunk(b"")

    upstream.behavior = behave
    connection.request("POST", "/run_code", b"{}", BEARER)
    answer = connection.getresponse()

    assert answer.read(5) == b"first"
    first_was_read.set()
    assert answer.read() == b"second"


def test_large_bodies_are_forwarded_in_both_directions(
    upstream: ToolUpstream, http_client: httpx.Client
) -> None:
    body = bytes(range(256)) * (80 << 10)  # 20 MiB
    upstream.behavior = answering(200, body[::-1])

    answer = http_client.post("/run_code", content=body)

    assert upstream.received[0].body == body
    assert answer.content == body[::-1]
