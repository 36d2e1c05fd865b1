"""Reading the context length from a server."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from services.evaluator.rollout.engine import context_length


class Server:
    """Answers every GET with the same body."""

    def __init__(self) -> None:
        self.body = b""
        self.keys: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.keys.append(self.headers["Authorization"])
                self.send_response(200)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join(10)


def length(server: Server, body: Any, model: str | None = None) -> int | None:
    server.body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asyncio.run(context_length(server.url, "secret", model))


def test_the_context_length_of_the_requested_model_is_used(server: Server) -> None:
    cards = {"data": [{"id": "a", "max_model_len": 10}, {"id": "b", "max_model_len": 20}]}

    assert length(server, cards, "b") == 20
    assert length(server, cards) == 10
    assert set(server.keys) == {"Bearer secret"}


def test_an_adapter_has_the_context_length_of_its_base(server: Server) -> None:
    cards = {"data": [{"id": "adapter", "max_model_len": None}, {"id": "b", "max_model_len": 20}]}

    assert length(server, cards) == 20


@pytest.mark.parametrize("body", [{"data": [{"id": "a"}]}, {"data": []}, {}, b"<html>", b""])
def test_an_unreported_context_length_is_none(server: Server, body: Any) -> None:
    assert length(server, body) is None


def test_the_context_length_of_an_unreachable_server_is_none(server: Server) -> None:
    assert asyncio.run(context_length("http://127.0.0.1:1/v1", None)) is None
