"""A scripted gateway, for responses that a healthy gateway never sends."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from temper.client import Temper
from tests.support.waiting import wait_for

Answer = Callable[[Request], Response]


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Answers requests to a path with its scripted responses; the last one repeats."""

    url: str
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    def on(self, path: str, *answers: Answer | Response) -> None:
        self.answers[path] = [
            answer if callable(answer) and not isinstance(answer, Response) else _always(answer)
            for answer in answers
        ]

    async def handle(self, request: Request) -> Response:
        body = await request.body()
        path = request.url.path
        self.received.append(Received(request.method, path, dict(request.headers), body))
        answers = self.answers.get(path)
        if not answers:
            return Response(status_code=404)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer(request)


def _always(response: Response) -> Answer:
    return lambda _: response


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        scripted = ScriptedServer(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        app = FastAPI()
        app.add_api_route(
            "/{path:path}", scripted.handle, methods=["GET", "POST", "DELETE"], response_model=None
        )
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        uvicorn_server = uvicorn.Server(config)
        thread = threading.Thread(target=uvicorn_server.run, args=([listener],), daemon=True)
        thread.start()
        wait_for(lambda: uvicorn_server.started, "the server listens", 60)
        yield scripted
        uvicorn_server.should_exit = True
        thread.join(20)


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Temper]:
    with Temper(server.url) as client:
        yield client
