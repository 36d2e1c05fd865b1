"""Tunnels through the proxy: data, refusals, and endings."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
import uvloop

from services.sandbox.network import proxy as proxies
from services.sandbox.network.connecting import Result
from services.sandbox.network.proxy import CONNECTIONS
from tests.support.tcp import SECONDS, Server, echo, read_all, read_head, server
from tests.support.waiting import wait_for
from tests.unit.sandbox.network.proxied import LoopFactory, connect_to, running_proxy

MORE_THAN_BUFFERS = 32 << 20


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> LoopFactory:
    factory: LoopFactory = request.param
    return factory


@pytest.fixture
def echoing() -> Iterator[Server]:
    with server(echo) as running:
        yield running


def test_tunnels_relay_both_directions_and_half_closes(
    echoing: Server, new_loop: LoopFactory
) -> None:
    with running_proxy([echoing.place], new_loop) as proxy, proxy.tunnel(echoing.place) as client:
        client.sendall(b"\x16\x03\x01 no HTTP \x00\xff")
        assert client.recv(100) == b"\x16\x03\x01 no HTTP \x00\xff"

        client.sendall(b"the end")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"the end"
        assert proxy.network.results == {Result.ALLOWED: 1}


def test_data_right_after_connect_is_forwarded(echoing: Server, new_loop: LoopFactory) -> None:
    with running_proxy([echoing.place], new_loop) as proxy, proxy.connect() as client:
        client.sendall(connect_to(echoing.place) + b"early")
        assert b" 200 " in read_head(client)
        assert client.recv(100) == b"early"


@pytest.mark.drill
def test_large_data_can_be_sent_and_received_concurrently(
    echoing: Server, new_loop: LoopFactory
) -> None:
    sent = bytes(range(256)) * (MORE_THAN_BUFFERS // 256)
    with running_proxy([echoing.place], new_loop) as proxy, proxy.tunnel(echoing.place) as client:
        client.setblocking(False)
        view, received = memoryview(sent), bytearray()
        while len(received) < len(sent):
            with contextlib.suppress(BlockingIOError):
                view = view[client.send(view) :]
            with contextlib.suppress(BlockingIOError):
                received += client.recv(1 << 16)
    assert received == sent


def test_backpressure_reaches_the_sender(new_loop: LoopFactory) -> None:
    done = threading.Event()

    def take_nothing(_connection: socket.socket) -> None:
        done.wait(SECONDS)

    with (
        server(take_nothing) as other,
        running_proxy([other.place], new_loop) as proxy,
        proxy.tunnel(other.place) as client,
    ):
        client.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < MORE_THAN_BUFFERS:
                sent += client.send(bytes(1 << 16))
        done.set()
    assert sent < MORE_THAN_BUFFERS


def test_unlisted_destinations_are_never_connected_to(
    echoing: Server, new_loop: LoopFactory
) -> None:
    with server(echo) as other, running_proxy([other.place], new_loop) as proxy:
        answer = proxy.ask(connect_to(echoing.place))

        sentence = f"{echoing.place} is not listed in TEMPER_SANDBOX_NETWORK_ALLOW of this sandbox"
        assert answer.startswith(f"HTTP/1.1 403 {sentence}\r\n".encode())
        assert answer.endswith(f"\r\n\r\n{sentence}\n".encode())
        assert proxy.network.results == {Result.REFUSED: 1}
    assert echoing.connections == []


def test_a_name_reaches_this_host_only_if_its_address_is_listed(
    echoing: Server, new_loop: LoopFactory
) -> None:
    name = f"localhost:{echoing.port}"
    with running_proxy([name], new_loop) as proxy:
        answer = proxy.ask(connect_to(name))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert f"{name} resolves to ".encode() in answer
        assert b"such an address must itself be listed" in answer
    assert echoing.connections == []

    with (
        running_proxy([name, echoing.place], new_loop) as proxy,
        proxy.tunnel(name) as client,
    ):
        client.sendall(b"x")
        assert client.recv(1) == b"x"


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST.", "127.1", "2130706433", "0x7f000001"])
def test_disguised_addresses_do_not_match(
    echoing: Server, new_loop: LoopFactory, name: str
) -> None:
    with running_proxy([echoing.place], new_loop) as proxy:
        status = proxy.ask(connect_to(f"{name}:{echoing.port}")).split()[1]
        assert status in {b"400", b"403"}
    assert echoing.connections == []


def test_an_unreachable_destination_is_reported_as_such(new_loop: LoopFactory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        place = f"127.0.0.1:{gone.getsockname()[1]}"
    with running_proxy([place], new_loop) as proxy:
        answer = proxy.ask(connect_to(place))
        assert answer.startswith(f"HTTP/1.1 502 {place} cannot be reached: ".encode())
        assert proxy.network.results == {Result.UNREACHABLE: 1}


def test_a_broken_destination_breaks_the_tunnel(new_loop: LoopFactory) -> None:
    def say_and_leave(connection: socket.socket) -> None:
        connection.sendall(b"bye")

    with (
        server(say_and_leave) as other,
        running_proxy([other.place], new_loop) as proxy,
        proxy.tunnel(other.place) as client,
    ):
        assert read_all(client) == b"bye"


def test_connections_are_limited_and_further_ones_wait(
    echoing: Server, new_loop: LoopFactory
) -> None:
    with running_proxy([echoing.place], new_loop) as proxy, contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(proxy.tunnel(echoing.place)) for _ in range(CONNECTIONS)]
        late = stack.enter_context(proxy.connect())
        late.sendall(connect_to(echoing.place))
        for client in open_ones:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        assert len(echoing.connections) == CONNECTIONS

        open_ones[0].close()
        assert b" 200 " in read_head(late)


def test_an_idle_connection_is_closed(
    echoing: Server, new_loop: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_proxy([echoing.place], new_loop) as proxy:
        with proxy.tunnel(echoing.place) as client:
            # No earlier, for it holds while a tunnel is made, too; it is looked up with each byte.
            monkeypatch.setattr(proxies, "IDLE_SECONDS", 0.2)
            client.sendall(b"x")
            assert read_all(client) in (b"x", b"")
        with proxy.connect() as client:
            assert client.recv(1) == b""


def test_everything_of_a_run_is_closed_when_it_ends(echoing: Server, new_loop: LoopFactory) -> None:
    with running_proxy([echoing.place], new_loop) as proxy, proxy.tunnel(echoing.place) as client:
        with proxy.connect() as unasked:
            proxy.finish()
            for connection in (client, unasked):
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        wait_for(lambda: all(each.fileno() < 0 for each in echoing.connections), "they are closed")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), SECONDS)
