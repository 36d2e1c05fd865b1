"""An OpenAI-compatible server for tests: real sockets, replies chosen by the test."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.threaded_server import LoopThread


@dataclass
class Reply:
    """What the server does with one request."""

    text: str = ""
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hold: bool = False  # until `release` is called
    reset: bool = False
    truncate: bool = False  # close the connection before the end of the body


Script = Callable[[str, int], Reply]
"""From the last message and how often it was asked (1: the first time) to the reply."""


def add(prompt: str, _times: int) -> Reply:
    """Answer ``3+4=`` correctly."""
    left, right = prompt.rstrip("=").split("+")
    return Reply(f"The sum is {int(left) + int(right)}")


def calling(name: str, **arguments: Any) -> Reply:
    """A turn that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "call-1", "type": "function", "function": function}
    completion = _completion(None, tool_calls=[call])
    return Reply(body=json.dumps(completion).encode())


def error(status: int, message: str, **headers: str) -> Reply:
    """An error in OpenAI's format."""
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
    return Reply(status=status, body=body.encode(), headers=headers)


class ChatServer:
    """Serves POST /v1/chat/completions on a free loopback port until the block ends."""

    def __init__(self, script: Script = add) -> None:
        self.script = script
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.authorizations: set[str | None] = set()
        self.in_flight = 0
        self.peak = 0
        self._thread = LoopThread()

    @property
    def url(self) -> str:
        """The base URL, up to and including /v1."""
        return f"http://127.0.0.1:{self._port}/v1"

    def release(self) -> None:
        """Answer held requests and all later ones."""
        self._thread.call(self._released.set)

    def reset(self, script: Script = add) -> None:
        """Forget what was asked, follow another script, and hold what it holds."""
        self.script = script
        self.asked.clear()
        self.bodies.clear()
        self._thread.call(self._released.clear)

    def __enter__(self) -> "ChatServer":
        self._thread.__enter__()
        self._thread.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._stop())
        self._thread.__exit__()

    async def _start(self) -> None:
        self._released = asyncio.Event()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client disconnected
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
        }
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        self.asked[prompt] += 1
        self.bodies.append(body)
        self.authorizations.add(headers.get("authorization"))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            reply = self.script(prompt, self.asked[prompt])
            await asyncio.sleep(reply.delay)
            if reply.hold:
                await self._released.wait()
        finally:
            self.in_flight -= 1
        if reply.reset:
            writer.transport.abort()
            return False
        response = _response(reply)
        writer.write(response[:-10] if reply.truncate else response)
        await writer.drain()
        return not reply.truncate


def _response(reply: Reply) -> bytes:
    body = reply.body if reply.body is not None else json.dumps(_completion(reply.text)).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in (headers | reply.headers).items()]
    head = "\r\n".join([f"HTTP/1.1 {reply.status} Status", *lines])
    return head.encode() + b"\r\n\r\n" + body


def _completion(text: str | None, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **fields}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "adder",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }
