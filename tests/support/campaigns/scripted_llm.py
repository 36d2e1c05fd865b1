"""A server that plays an LLM by a script, and a sandbox without isolation beside it."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.support.threaded_server import ThreadedServer

Messages = list[dict[str, Any]]


class ScriptedLlm(ThreadedServer):
    """Serves /v1/chat/completions and /run_code on a free port until the block ends.

    ``answer`` maps the messages of a request to what the LLM says, after ``answer_seconds``.
    ``answered`` counts the answers to equal requests; ``keys`` are the idempotency keys of all
    requests. While ``held`` says so of the messages, a request is not answered; ``holding`` is set
    then, and ``abandoned`` when its client is gone. Where ``endless`` says so, the answer has no
    end, and where ``raw`` has bytes for them, these are the answer. A request with a field that
    ``refused`` has is refused with the message there and ``refusal`` as its status; ``bodies`` are
    those of all requests.
    """

    def __init__(self, answer: Callable[[Messages], str]) -> None:
        super().__init__()
        self.answer = answer
        self.answer_seconds = 0.0
        self.answered: Counter[str] = Counter()
        self.requests: list[Messages] = []
        self.keys: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.refused: dict[str, str] = {}
        self.refusal = 400
        self.raw: Callable[[Messages], bytes | None] = lambda _: None
        self.held: Callable[[Messages], bool] = lambda _: False
        self.endless: Callable[[Messages], bool] = lambda _: False
        self.holding = threading.Event()
        self.abandoned = threading.Event()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._complete),
            web.post("/run_code", self._run_code),
        ]

    def __exit__(self, *error: object) -> None:
        self.held = lambda _: False
        super().__exit__(*error)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        messages = body["messages"]
        self.keys.append(request.headers.get("Idempotency-Key", ""))
        self.bodies.append(body)
        for field in self.refused.keys() & body.keys():
            error = {"message": self.refused[field], "param": field}
            return web.json_response({"error": error}, status=self.refusal)
        while self.held(messages):
            self.holding.set()
            await asyncio.sleep(0.02)
            if request.transport is None:
                self.abandoned.set()
                raise web.HTTPGone
        await asyncio.sleep(self.answer_seconds)
        self.requests.append(messages)
        if self.endless(messages):
            return await _endless(request)
        if (raw := self.raw(messages)) is not None:
            return web.Response(body=raw, content_type="application/json")
        self.answered[json.dumps(messages)] += 1
        message = {"role": "assistant", "content": self.answer(messages)}
        return web.json_response(
            {
                "choices": [{"message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10},
            }
        )

    async def _run_code(self, request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(_run, await request.json()))


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"message": {"content": "')
    with contextlib.suppress(ConnectionError):
        while request.transport is not None:
            await response.write(b"and so on " * (1 << 16))
    return response


def _run(body: dict[str, Any]) -> dict[str, Any]:
    """Run a program of a test as the sandbox would."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in body["files"].items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content))
        command = [sys.executable, "-c", body["code"]]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        fetched = {
            path: base64.b64encode((folder / path).read_bytes()).decode()
            for path in body["fetch_files"]
            if (folder / path).exists()
        }
    result = {
        "status": "Finished",
        "return_code": done.returncode,
        "stdout": done.stdout,
        "stderr": done.stderr,
    }
    status = "Failed" if done.returncode else "Success"
    return {"status": status, "run_result": result, "files": fetched}
