"""A request head that does not arrive in time ends its connection."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from services.core.web import serving
from services.core.web.serving import Address, bind, create_server


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await PlainTextResponse("hello")(scope, receive, send)


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nHost: x", b"GE"])
def test_a_half_sent_head_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.05)

    async def run() -> None:
        sockets = bind(Address("127.0.0.1", 0))
        server = create_server(_hello)
        serving_task = asyncio.create_task(server.serve(sockets))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        writer.write(start)
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b"", "the connection is closed"
            raise ConnectionResetError
        writer.close()
        server.should_exit = True
        await serving_task

    asyncio.run(run())
