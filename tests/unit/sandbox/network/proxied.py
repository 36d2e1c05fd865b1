"""A proxy on the test's own loopback interface."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from services.sandbox.network.destinations import AllowList
from services.sandbox.network.proxy import Network, Proxy
from tests.support.tcp import SECONDS, read_all, read_head

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@dataclass(frozen=True)
class RunningProxy:
    """A proxy that runs in its own event loop."""

    port: int
    network: Network
    proxy: Proxy
    loop: asyncio.AbstractEventLoop

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), SECONDS)

    def ask(self, request: bytes) -> bytes:
        """Send bytes, and return everything until the proxy closes the connection."""
        with self.connect() as client:
            client.sendall(request)
            return read_all(client)

    def tunnel(self, destination: str) -> socket.socket:
        """A connection to an allowed destination."""
        client = self.connect()
        client.sendall(connect_to(destination))
        assert read_head(client).startswith(b"HTTP/1.1 200 ")
        return client

    def finish(self) -> None:
        self.loop.call_soon_threadsafe(self.proxy.finish)


@contextlib.contextmanager
def running_proxy(allow: Iterable[str], new_loop: LoopFactory) -> Iterator[RunningProxy]:
    """A proxy for the allow-list; all its tasks must have ended cleanly."""
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    network = Network(AllowList(allow))
    proxy = network.proxy(listener.detach())
    try:
        loop.call_soon_threadsafe(proxy.started)
        yield RunningProxy(port, network, proxy, loop)
    finally:
        asyncio.run_coroutine_threadsafe(_end(proxy), loop).result(SECONDS)
        network.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


async def _end(proxy: Proxy) -> None:
    proxy.finish()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


def connect_to(destination: str) -> bytes:
    return f"CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n\r\n".encode()
