"""Plain HTTP requests through the proxy, and malformed ones."""

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from services.sandbox.metrics import NetworkMetrics
from services.sandbox.network.connecting import Result
from tests.support.tcp import SECONDS, Conversation, Server, read_all, read_head, server
from tests.unit.sandbox.network.proxied import RunningProxy, running_proxy

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
LARGE = 4 << 20


@contextmanager
def leading_to(conversation: Conversation) -> Iterator[tuple[RunningProxy, Server]]:
    """A proxy, and the one server that it may lead to."""
    with server(conversation) as other, running_proxy([other.place], uvloop.new_event_loop) as one:
        yield one, other


@pytest.fixture
def seen() -> list[bytes]:
    """The requests that the server got."""
    return []


@pytest.fixture
def proxied(seen: list[bytes]) -> Iterator[tuple[RunningProxy, Server]]:
    """A server that gives the same response to every request and keeps the connection."""

    def converse(connection: socket.socket) -> None:
        while True:
            seen.append(read_head(connection))
            connection.sendall(OK)

    with leading_to(converse) as both:
        yield both


def ask(proxy: RunningProxy, method: str, url: str, **more: object) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
    connection.request(method, url, **more)  # type: ignore[arg-type]  # the mapping's values are of several types
    return connection.getresponse()


def test_requests_are_forwarded_as_if_sent_directly(
    proxied: tuple[RunningProxy, Server], seen: list[bytes]
) -> None:
    proxy, other = proxied
    headers = {
        "Host": "elsewhere.example",
        "Proxy-Authorization": "Basic c2VjcmV0",
        "Proxy-Connection": "keep-alive",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "Authorization": "Bearer token",
        "X-Own": "2",
    }

    answer = ask(proxy, "GET", f"http://{other.place}/a/b?q=%20#part", headers=headers)

    assert (answer.status, answer.reason, answer.read()) == (200, "OK", b"hi")
    stream, *fields = seen[0].decode().strip().split("\r\n")
    assert stream == "GET /a/b?q=%20 HTTP/1.1"
    assert sorted(field.lower() for field in fields) == [
        "accept-encoding: identity",
        "authorization: bearer token",
        "connection: close",
        f"host: {other.place}",
        "x-own: 2",
    ]


@pytest.mark.parametrize(
    ("url", "stream"),
    [("http://{}", "GET / "), ("HTTP://{}?a", "GET /?a "), ("http://{}//x", "GET //x ")],
)
def test_every_url_form_is_understood(
    proxied: tuple[RunningProxy, Server], seen: list[bytes], url: str, stream: str
) -> None:
    proxy, other = proxied

    target = url.format(other.place)
    answer = proxy.ask(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert seen[0].decode().startswith(stream)


def test_a_pipelined_request_never_reaches_the_first_server(
    proxied: tuple[RunningProxy, Server], seen: list[bytes]
) -> None:
    proxy, other = proxied
    first = f"GET http://{other.place}/ HTTP/1.1\r\nHost: x\r\n\r\n"
    second = "GET http://elsewhere.example/secret HTTP/1.1\r\nHost: x\r\n\r\n"

    answer = proxy.ask((first + second).encode())

    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()
    assert len(seen) == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_pass_in_both_directions(chunked: bool) -> None:
    def echo_body(connection: socket.socket) -> None:
        head = read_head(connection).lower()
        assert (b"transfer-encoding: chunked" in head) == chunked
        body = b""
        while len(body) < LARGE or (chunked and not body.endswith(b"0\r\n\r\n")):
            body += connection.recv(1 << 16)
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % LARGE
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + body)

    data = bytes(range(256)) * (LARGE // 256)
    with leading_to(echo_body) as (proxy, other):
        body = iter([data[: LARGE // 2], data[LARGE // 2 :]]) if chunked else data
        answer = ask(proxy, "POST", f"http://{other.place}/", body=body, encode_chunked=chunked)
        assert answer.read() == data


def test_a_response_without_length_ends_with_its_connection() -> None:
    def answer_as_of_old(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + bytes(LARGE))

    with leading_to(answer_as_of_old) as (proxy, other):
        assert ask(proxy, "GET", f"http://{other.place}/").read() == bytes(LARGE)


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
    ],
)
def test_a_response_without_body_is_complete(method: str, head: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(head)
        connection.recv(1)

    with leading_to(answer) as (proxy, other):
        response = ask(proxy, method, f"http://{other.place}/")
        assert response.status == int(head.split()[1])
        assert response.read() == b""


def test_expect_continue_is_answered() -> None:
    def give_leave(connection: socket.socket) -> None:
        assert b"expect: 100-continue" in read_head(connection).lower()
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert connection.recv(4, socket.MSG_WAITALL) == b"body"
        connection.sendall(OK)

    with leading_to(give_leave) as (proxy, other), proxy.connect() as client:
        client.sendall(
            f"PUT http://{other.place}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
            "Expect: 100-continue\r\n\r\n".encode()
        )
        assert read_head(client).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"body")
        assert read_all(client).endswith(b"\r\n\r\nhi")


def test_an_early_response_is_not_lost() -> None:
    def refuse_at_once(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    with leading_to(refuse_at_once) as (proxy, other):
        answer = ask(proxy, "POST", f"http://{other.place}/", body=bytes(LARGE))
        assert answer.status == 413


def test_unlisted_destinations_are_refused_even_with_a_large_body(
    proxied: tuple[RunningProxy, Server], seen: list[bytes]
) -> None:
    proxy, other = proxied
    answer = ask(proxy, "POST", f"http://127.0.0.2:{other.port}/x?token=1", body=bytes(LARGE))

    assert answer.status == 403
    assert answer.read().decode() == (
        f"127.0.0.2:{other.port} is not listed in TEMPER_SANDBOX_NETWORK_ALLOW of this sandbox\n"
    )
    assert ask(proxy, "HEAD", "http://elsewhere.example/").status == 403
    assert proxy.network.results == {Result.REFUSED: 2}
    assert seen == []


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET https://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET ftp://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://user:secret@a.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http:/// HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://a.example:x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT a.example HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT /:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT a.example:80 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"GET http://a.example/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET http://a.example/" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET http://a.example/ HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 500 + b"\r\n", 431),
        (b"a" * 40_000, 431),
    ],
)
def test_non_proxy_requests_get_an_explanation(request_bytes: bytes, status: int) -> None:
    with running_proxy(["a.example:80"], uvloop.new_event_loop) as proxy:
        assert proxy.ask(request_bytes).startswith(b"HTTP/1.1 %d " % status)
        assert proxy.network.results == {Result.MALFORMED: 1}


@pytest.mark.parametrize("garbage", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 101 Switching\r\n\r\n"])
def test_a_server_that_does_not_speak_http_gives_502(garbage: bytes) -> None:
    def speak_otherwise(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(garbage)

    with leading_to(speak_otherwise) as (proxy, other):
        answer = ask(proxy, "GET", f"http://{other.place}/")
        assert answer.status == 502
        assert answer.read().decode() == f"{other.place} did not answer a request\n"


GOOD = b"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"
PIECES = st.one_of(
    st.binary(),
    st.sampled_from([b"\r\n", b"\r\n\r\n", b"\n\n", b" ", b":", b"CONNECT ", b"HTTP/1.1", b"\0"]),
    st.integers(0, len(GOOD)).map(lambda end: GOOD[:end]),
    st.integers(0, len(GOOD)).map(lambda start: GOOD[start:]),
)


def test_any_bytes_get_a_response_or_a_disconnect(caplog: pytest.LogCaptureFixture) -> None:
    with running_proxy(["b.example:80"], uvloop.new_event_loop) as proxy:

        @given(st.lists(PIECES).map(b"".join))
        def try_out(request_bytes: bytes) -> None:
            with proxy.connect() as client:
                client.sendall(request_bytes)
                client.shutdown(socket.SHUT_WR)
                assert re.match(rb"HTTP/1.1 [45]|$", read_all(client))

        try_out()
    assert caplog.records == []


def test_a_truncated_response_is_detected() -> None:
    def break_off(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")

    with leading_to(break_off) as (proxy, other):
        answer = ask(proxy, "GET", f"http://{other.place}/")
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            answer.read()


def test_a_client_disconnect_aborts_the_forwarded_request() -> None:
    arrived, gone = threading.Event(), threading.Event()

    def wait_for_the_end(connection: socket.socket) -> None:
        read_head(connection)
        arrived.set()
        if not connection.recv(1):
            gone.set()

    with leading_to(wait_for_the_end) as (proxy, other):
        with proxy.connect() as client:
            client.sendall(f"GET http://{other.place}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert arrived.wait(SECONDS)
        assert gone.wait(SECONDS)


def test_proxy_requests_are_counted_by_result(proxied: tuple[RunningProxy, Server]) -> None:
    proxy, other = proxied
    registry = CollectorRegistry()
    registry.register(NetworkMetrics(proxy.network))

    ask(proxy, "GET", f"http://{other.place}/")
    ask(proxy, "GET", "http://elsewhere.example/")
    proxy.connect().close()

    text = generate_latest(registry).decode()
    for result, number in (("allowed", 1), ("refused", 1), ("unreachable", 0), ("malformed", 0)):
        stream = f'temper_sandbox_network_connections_total{{result="{result}"}} {number}.0\n'
        assert stream in text
