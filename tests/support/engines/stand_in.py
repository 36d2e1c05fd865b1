"""An engine for tests: vLLM's routes of inference and of adapters, answers chosen by the prompt.

With tools the first is called, until the last message is its result. ``wait`` streams a first word
and then nothing until the client goes away; ``die`` drops the connection, ``half`` does so in the
middle of the answer; ``abort`` is answered as by a vLLM that is told to end meanwhile; ``refuse``
is answered as vLLM answers a request that is too long; ``hold PATH`` is answered once there is a
file at the path.
"""

import asyncio
import base64
import json
import struct
import threading
from pathlib import Path
from typing import Any

from aiohttp import web

KEY = "engine-key"


class EngineStandIn:
    """Serves on a free loopback port. ``always_calls``: tools are called whatever the last message
    is. ``bodies`` are the requests so far, ``adapters`` what is
    loaded, ``hung_up`` is set once a client has gone away."""

    def __init__(self, model: str = "base") -> None:
        self.bodies: list[dict[str, Any]] = []
        self.adapters: list[str] = []
        self.changes: list[str] = []
        self.keys: set[str | None] = set()
        self.hung_up = threading.Event()
        self.always_calls = False
        self.url = ""
        self._model = model
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen."""
        application = web.Application()
        application.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._chat),
                web.post("/v1/embeddings", self._embed),
                web.post("/tokenize", self._tokenize),
                web.post("/v1/load_lora_adapter", self._load),
                web.post("/v1/unload_lora_adapter", self._unload),
            ]
        )
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._runner = runner

    async def stop(self) -> None:
        """Close all connections and the port, as a killed process does."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.keys.add(request.headers.get("Authorization"))
        body = await request.json()
        self.bodies.append(body)
        prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        if prompt == "refuse" or body["model"] not in {self._model, *self.adapters}:
            return _refusal(f"{body['model']} cannot answer this")
        assert request.transport is not None
        if prompt == "die":
            request.transport.abort()
            return web.Response()
        if prompt.startswith("hold ") and not body.get("stream"):
            await _exists(Path(prompt[5:]))
        if not body.get("stream"):
            return web.json_response(_completion(body, prompt, self._calls(body)), dumps=_compact)
        return await self._stream(request, body, prompt)

    async def _tokenize(self, request: web.Request) -> web.Response:
        """One token for each message and tool."""
        body = await request.json()
        self.bodies.append(body)
        count = len(body["messages"]) + len(body.get("tools", ()))
        return web.json_response({"count": count, "max_model_len": 100, "tokens": [0] * count})

    async def _embed(self, request: web.Request) -> web.Response:
        self.keys.add(request.headers.get("Authorization"))
        body = await request.json()
        self.bodies.append(body)
        if body.get("dimensions"):
            return _refusal("the model does not support other dimensions")
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [
            {"object": "embedding", "index": index, "embedding": _vector(body, text)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return web.json_response(
            {"object": "list", "model": body["model"], "data": data, "usage": usage}
        )

    async def _stream(
        self, request: web.Request, body: dict[str, Any], prompt: str
    ) -> web.StreamResponse:
        headers = {
            "Content-Type": "text/event-stream",
            "X-Engine": "stand-in",
            "X-Hop": "1",
            "Connection": "x-hop",
        }
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        await response.write(_event(_chunk(body, {"role": "assistant", "content": "one "})))
        if prompt == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                self.hung_up.set()
        if prompt.startswith("hold "):
            await _exists(Path(prompt[5:]))
        if prompt == "half":
            assert request.transport is not None
            await asyncio.sleep(0)
            request.transport.close()
            return response
        reason = "abort" if prompt == "abort" else "stop"
        grown: dict[str, Any] = {"content": "two"}
        if self._calls(body):
            reason = "tool_calls"
            grown = {"tool_calls": [{"index": 0, **_call_of(body)}]}
        last = _event(_chunk(body, grown, reason))
        await response.write(last[:-20])  # a mark may lie across two packets
        await asyncio.sleep(0)
        await response.write(last[-20:])
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
            head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0}
            event = {**head, "model": body["model"], "choices": [], "usage": usage}
            await response.write(_event(_compact(event).encode()))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _calls(self, body: dict[str, Any]) -> bool:
        is_answered = body.get("messages", [{}])[-1].get("role") == "tool"
        return bool(body.get("tools")) and (self.always_calls or not is_answered)

    async def _load(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        self.adapters.append(name)
        self.changes.append(f"+{name}")
        return web.Response(text="loaded")

    async def _unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        self.adapters.remove(name)
        self.changes.append(f"-{name}")
        return web.Response(text="unloaded")


def _completion(body: dict[str, Any], prompt: str, calls: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"echo: {prompt}"}
    reason = "abort" if prompt == "abort" else "stop"
    if calls:
        message |= {"content": None, "tool_calls": [_call_of(body)]}
        reason = "tool_calls"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": message,
                "text": f"echo: {prompt}",
                "finish_reason": reason,
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


async def _exists(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.05)


def _vector(body: dict[str, Any], text: str) -> list[float] | str:
    """A vector that tells the length of the text, in the encoding that is asked for."""
    vector = [float(len(text)), 0.5]
    if body.get("encoding_format") != "base64":
        return vector
    return base64.b64encode(struct.pack("<2f", *vector)).decode()


def _call_of(body: dict[str, Any]) -> dict[str, Any]:
    """A call of the first tool; a question in the form of a JSON object is its arguments."""
    asked = [each["content"] for each in body["messages"] if each["role"] == "user"]
    prompt = str(asked[-1]) if asked else ""
    arguments = prompt if prompt.startswith("{") else "{}"
    function = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
    return {"id": f"call-{len(body['messages'])}", "type": "function", "function": function}


def _chunk(body: dict[str, Any], delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0}
    return _compact({**chunk, "model": body["model"], "choices": [choice]}).encode()


def _compact(value: Any) -> str:
    """JSON without spaces, as vLLM writes it."""
    return json.dumps(value, separators=(",", ":"))


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _refusal(message: str) -> web.Response:
    error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return web.json_response({"error": error}, status=400)
