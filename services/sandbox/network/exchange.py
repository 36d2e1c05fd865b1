"""One connection through the proxy: a tunnel, or one plain HTTP request."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import h11

from services.sandbox.network.connecting import Connector, NotConnected, Result
from services.sandbox.network.destinations import Destination
from services.sandbox.network.messages import HttpPeer, forwarded
from services.sandbox.network.stream import ByteStream, Spend, relay

_URL = re.compile(rb"http://(?P<host>[^/?#]*?)(?P<port>:[0-9]*)?(?P<path>[/?][^#]*)?(#.*)?", re.I)
_LONGEST_SENTENCE = 500


@dataclass(frozen=True)
class ProxyExchange:
    """Serves a client; ``count`` is called once with the result."""

    connector: Connector
    spend: Spend
    count: Callable[[Result], None]

    async def serve(self, stream: ByteStream) -> None:
        """Serve the client's request; raises OSError when its stream breaks."""
        client = HttpPeer(stream, h11.SERVER)
        request = None
        try:
            request = await client.first()
            if not isinstance(request, h11.Request):
                return  # it disconnected
            if request.method == b"CONNECT":
                await self._tunnel(request, client)
            else:
                await self._forward(request, client)
        except NotConnected as refusal:
            self.count(refusal.result)
            await _answer(client, request, refusal.status, refusal.message)
        except h11.RemoteProtocolError as error:
            self.count(Result.MALFORMED)
            await _answer(client, request, error.error_status_hint, str(error))

    async def _tunnel(self, request: h11.Request, client: HttpPeer) -> None:
        destination = _destination(request.target)
        if not isinstance(await client.next(), h11.EndOfMessage):
            raise _malformed("CONNECT takes no body")
        with await self.connector.connect(destination) as connection:
            self.count(Result.ALLOWED)
            await client.send(h11.Response(status_code=200, headers=[], reason=b"Connected"))
            other = ByteStream(connection, self.spend)
            await other.send(client.rest())
            await relay(client.stream, other)

    async def _forward(self, request: h11.Request, client: HttpPeer) -> None:
        url = _URL.fullmatch(request.target)
        if url is None:
            raise _malformed("this proxy takes http URLs, and CONNECT for everything else")
        port = url["port"] or b""
        destination = _destination(url["host"] + (port if len(port) > 1 else b":80"))
        host = b"host", url["host"] + port
        path = (url["path"] or b"").removeprefix(b"/")
        others = [header for header in forwarded(request.headers) if header[0] != b"host"]
        rewritten = h11.Request(method=request.method, target=b"/" + path, headers=[host, *others])
        with await self.connector.connect(destination) as connection:
            self.count(Result.ALLOWED)
            server = HttpPeer(ByteStream(connection, self.spend), h11.CLIENT)
            if await _exchange(rewritten, client, server):
                await client.close_gently()
            elif not client.has_started:
                await _answer(client, request, 502, f"{destination} did not answer a request")


async def _exchange(request: h11.Request, client: HttpPeer, server: HttpPeer) -> bool:
    """Forward the request and relay the response; return whether it was complete."""
    sending = asyncio.create_task(_send_request(request, client, server))
    responding = asyncio.create_task(_relay_response(server, client))
    both = (sending, responding)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return responding.done() and responding.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def _send_request(request: h11.Request, client: HttpPeer, server: HttpPeer) -> None:
    """Forward the request as far as the server reads it; return when the client disconnects."""
    with contextlib.suppress(OSError, h11.ProtocolError):
        await server.send(request)
        while isinstance(event := await client.next(), h11.Data):
            await server.send(event)
        await server.send(h11.EndOfMessage())
    with contextlib.suppress(OSError):
        while await client.stream.receive():
            pass


async def _relay_response(server: HttpPeer, client: HttpPeer) -> bool:
    with contextlib.suppress(OSError, h11.ProtocolError):
        while not isinstance(event := await server.next(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                event = h11.Response(
                    status_code=event.status_code,
                    reason=event.reason,
                    headers=forwarded(event.headers),
                )
            await client.send(event)
        await client.send(h11.EndOfMessage())
        return True
    return False


def _destination(text: bytes) -> Destination:
    try:
        return Destination.parse(text.decode("ascii"))
    except ValueError as error:
        raise _malformed(str(error)) from None


def _malformed(message: str) -> NotConnected:
    return NotConnected(Result.MALFORMED, 400, message)


async def _answer(client: HttpPeer, request: h11.Event | None, status: int, message: str) -> None:
    """Respond with an error, also in the reason phrase, which many clients show."""
    text = message[:_LONGEST_SENTENCE].encode("ascii", "replace")
    body = text + b"\n"
    headers = [
        ("content-type", "text/plain"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    await client.send(h11.Response(status_code=status, headers=headers, reason=text))
    if not (isinstance(request, h11.Request) and request.method == b"HEAD"):
        await client.send(h11.Data(data=body))
    await client.send(h11.EndOfMessage())
    await client.close_gently()
