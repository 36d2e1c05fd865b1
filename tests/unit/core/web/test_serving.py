"""Sockets of a service."""

import asyncio
import selectors
import signal
import socket
from types import SimpleNamespace

import pytest
from starlette.responses import PlainTextResponse

from services.contracts.errors import ConfigurationError
from services.core.web import serving
from services.core.web.serving import Address, bind, create_server

HELLO = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_port_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1, port {port}: "):
            bind(Address("127.0.0.1", port))


def test_an_unknown_host_name_is_reported_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="cannot listen on no such name"):
        bind(Address("no such name", 1))


def test_a_client_that_reads_nothing_is_disconnected_by_the_kernel() -> None:
    (listening,) = bind(Address("127.0.0.1", 0))
    with listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                milliseconds = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert milliseconds > 0


def test_a_signal_ends_a_server_that_sleeps() -> None:
    async def run() -> None:
        server = create_server(PlainTextResponse("hello"))
        task = asyncio.create_task(server.serve(bind(Address("127.0.0.1", 0))))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # it waits
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await task

    before = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again at the end
    try:
        asyncio.run(run())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_idle_server_is_woken_by_nothing_but_its_end() -> None:
    server = create_server(PlainTextResponse("hello"), takes_signals=False)
    waits: list[float | None] = []

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if server.started and timeout != 0 and not server.should_exit:
                waits.append(timeout)
                server.should_exit = True
            return super().select(timeout)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Selector())) as runner:
        runner.run(server.serve(bind(Address("127.0.0.1", 0))))

    assert waits == [None]


def test_responses_have_the_date_of_their_request(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(serving, "time", SimpleNamespace(time=lambda: clock[0]))

    async def run() -> list[bytes]:
        server = create_server(PlainTextResponse("hello"), takes_signals=False)
        sockets = bind(Address("127.0.0.1", 0))
        task = asyncio.create_task(server.serve(sockets))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        heads = []
        for second, request in enumerate((HELLO, HELLO, b"no request\r\n\r\n")):
            clock[0] = 86_400.0 + second
            writer.write(request)
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            if request == HELLO:
                await reader.readexactly(len(b"hello"))
        writer.close()
        server.should_exit = True
        await task
        return heads

    heads = asyncio.run(run())

    for second, head in enumerate(heads):
        assert f"date: Fri, 02 Jan 1970 00:00:0{second} GMT".encode() in head
