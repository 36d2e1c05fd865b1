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
    """Serves /v1/chat/completions and /v1/scripts on a free port until the block ends.

    ``answer`` maps the messages of a request to what the LLM says, after ``answer_seconds``.
    ``answered`` counts the answers to equal requests; ``keys`` are the idempotency keys of all
    requests. While ``held`` says so of the messages, a request is not answered; ``holding`` is set
    then, and ``abandoned`` when its client is gone; ``unanswered`` counts those that wait. Where
    ``endless`` says so, the answer has no end, and where ``raw`` has bytes for them, these are the
    answer. A request with a field that ``refused`` has is refused with the message there and
    ``refusal`` as its status; ``bodies`` are
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
        self._scripts: dict[str, tuple[dict[str, Any], dict[str, bytes]]] = {}
        self.holding = threading.Event()
        self.abandoned = threading.Event()
        self.unanswered = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._complete),
            web.put("/v1/scripts/{id}", self._run_script),
            web.get("/v1/scripts/{id}", self._script),
            web.get("/v1/scripts/{id}/files/{path}", self._file_of_script),
            web.delete("/v1/scripts/{id}", self._forget_script),
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
        self.unanswered += 1
        try:
            while self.held(messages):
                self.holding.set()
                await asyncio.sleep(0.02)
                if request.transport is None:
                    self.abandoned.set()
                    raise web.HTTPGone
        finally:
            self.unanswered -= 1
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

    async def _run_script(self, request: web.Request) -> web.Response:
        script_id = request.match_info["id"]
        if script_id not in self._scripts:
            self._scripts[script_id] = await asyncio.to_thread(_run, await request.json())
        return await self._script(request)

    async def _script(self, request: web.Request) -> web.Response:
        script_id = request.match_info["id"]
        if script_id not in self._scripts:
            raise web.HTTPNotFound
        result, files = self._scripts[script_id]
        sizes = {path: len(content) for path, content in files.items()}
        return web.json_response({"id": script_id, **result, "files": sizes})

    async def _file_of_script(self, request: web.Request) -> web.Response:
        _, files = self._scripts[request.match_info["id"]]
        return web.Response(body=files[request.match_info["path"]])

    async def _forget_script(self, request: web.Request) -> web.Response:
        self._scripts.pop(request.match_info["id"], None)
        return web.json_response({})


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"message": {"content": "')
    with contextlib.suppress(ConnectionError):
        while request.transport is not None:
            await response.write(b"and so on " * (1 << 16))
    return response


def _run(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Run a script of a test as the sandbox would; return how it ended, and its files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sent = {path: base64.b64decode(content) for path, content in body["files"].items()}
        for path, content in {**sent, body["file"]: body["code"].encode()}.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        command = [sys.executable, body["file"], *body["arguments"]]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        files = {
            path: (folder / path).read_bytes()
            for path in body["fetch_files"]
            if (folder / path).exists()
        }
    result = {
        "state": "ended",
        "seconds": 1.0,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "result": {"status": "Finished", "return_code": done.returncode},
    }
    return result, files
