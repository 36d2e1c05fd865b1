"""Sockets of a service."""

import asyncio
import signal
import socket

import pytest
from starlette.responses import PlainTextResponse

from services.contracts.errors import ConfigurationError
from services.core.web import serving
from services.core.web.serving import Address, bind, create_server


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


def test_a_signal_ends_a_server_that_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "TICK_SECONDS", 3600.0)

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
