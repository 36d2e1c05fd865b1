"""A real HTTP server that misbehaves on request."""

import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behavior = Callable[["Exchange"], None]
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "46"}}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}


class Exchange(BaseHTTPRequestHandler):
    """One request, handled by the next behavior of the server's script."""

    protocol_version = "HTTP/1.1"
    server: "ScriptedServer"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        # Choose the behavior first: a client that sees the request may send another one.
        behavior = self.server.next_behavior()
        self.server.requests.append(
            ({k.lower(): v for k, v in self.headers.items()}, json.loads(body))
        )
        behavior(self)

    def log_message(self, *args: Any) -> None:
        pass

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ScriptedServer(ThreadingHTTPServer):
    """Serves its script's behaviors, one per request, and repeats the last one."""

    daemon_threads = True
    # Many concurrent connections must not wait for their SYNs to be retransmitted.
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Exchange)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.script: list[Behavior] = [answer()]
        self.closing = threading.Event()
        self._lock = threading.Lock()

    def handle_error(self, *args: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients of these tests hang up
            super().handle_error(*args)

    def next_behavior(self) -> Behavior:
        with self._lock:
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


def answer(status: int = 200, body: object = COMPLETION, **headers: str) -> Behavior:
    """Answer with JSON, or with raw bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda exchange: exchange.send(status, data, **headers)


def reset(exchange: Exchange) -> None:
    """Drop the connection with a RST."""
    exchange.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.rfile.close()
    exchange.wfile.close()
    exchange.connection.close()
    exchange.close_connection = True


def break_off(exchange: Exchange) -> None:
    """Send less than Content-Length promises."""
    exchange.send_response(200)
    exchange.send_header("content-length", "1000")
    exchange.end_headers()
    exchange.wfile.write(b'{"choices": [')
    exchange.close_connection = True


def hang(exchange: Exchange) -> None:
    """Send nothing until the server is closed."""
    exchange.server.closing.wait(60)
    exchange.close_connection = True


@contextmanager
def running_server(port: int = 0) -> Iterator[ScriptedServer]:
    """A server on a free port, or on the one given, for the duration of a block."""
    with ScriptedServer(port) as scripted:
        thread = threading.Thread(target=scripted.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield scripted
        finally:
            scripted.closing.set()
            scripted.shutdown()
            thread.join()
