"""A real tool service whose behavior a test sets, and a real gateway in front of it."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import uvicorn

from services.api.app import create_api
from services.api.settings import ApiSettings
from tests.support.waiting import wait_for

ANSWER = b'{"status": "Success"}'
STEP_SECONDS = 60.0


class Exchange(BaseHTTPRequestHandler):
    """One connection; the server's behavior reads and answers each of its requests."""

    protocol_version = "HTTP/1.1"
    timeout = STEP_SECONDS
    server: "ToolUpstream"

    def do_POST(self) -> None:
        self.server.behavior(self)

    def log_message(self, *args: object) -> None:
        pass

    def read_body(self) -> bytes:
        return b"".join(iter(self.read_piece, b""))

    def read_piece(self) -> bytes:
        """The next chunk of a chunked body, or a whole one of known length; b"" after it."""
        if "chunked" in self.headers.get("transfer-encoding", ""):
            piece = self.rfile.read(int(self.rfile.readline(), 16))
            self.rfile.readline()
            return piece
        length = int(self.headers.get("content-length", 0))
        del self.headers["content-length"]
        return self.rfile.read(length)

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def send_chunk(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))


@dataclass(frozen=True)
class Received:
    """A request as the tool service received it."""

    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]


def answering(
    status: int = 200, body: bytes = ANSWER, **headers: str
) -> Callable[[Exchange], None]:
    """A behavior that records the request and answers it."""

    def behave(exchange: Exchange) -> None:
        sent = {name.lower(): value for name, value in exchange.headers.items()}
        received = Received(exchange.path, sent, exchange.read_body(), exchange.client_address)
        exchange.server.received.append(received)
        exchange.begin(status, content_length=str(len(body)), **headers)
        exchange.wfile.write(body)

    return behave


class ToolUpstream(ThreadingHTTPServer):
    """Answers with ``behavior``; ``received`` holds what `answering` recorded."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.behavior: Callable[[Exchange], None] = answering()
        self.received: list[Received] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections; tests cause them on purpose."""


@contextlib.contextmanager
def running_upstream() -> Iterator[ToolUpstream]:
    """Run a tool service for the duration of a block."""
    upstream = ToolUpstream()
    thread = threading.Thread(target=upstream.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.shutdown()
        upstream.server_close()
        thread.join(STEP_SECONDS)


@contextlib.contextmanager
def running_api(home: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Run the gateway's application behind its real server in a thread; yield its URL."""
    app = create_api(ApiSettings(home=home, **settings))
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started, "the gateway listens", STEP_SECONDS)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(STEP_SECONDS)
