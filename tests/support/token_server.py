"""A scripted server: token ids in and out, and a tool."""

import asyncio
import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

Script = Callable[[str, int], str | int]
"""From the text so far, and how often it was asked, to what the model says; or a status code."""

MODEL = "scripted"
CONTEXT = 4096
END = "<|im_end|>"


class TokenServer:
    """Serves /v1/models, /v1/completions and /tool on a free port until the block ends.

    ``folder`` holds the tokenizer. /tool answers what ``tool`` makes of its arguments.
    """

    def __init__(
        self,
        folder: Path,
        script: Script,
        tool: Callable[[dict[str, Any]], str] = json.dumps,
    ) -> None:
        self.script = script
        self.tool = tool
        self.asked: Counter[str] = Counter()
        self.most_answered: float = math.inf  # completions beyond these are held back
        self.tool_calls = 0
        self.authorizations: set[str | None] = set()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._end = self._tokenizer.encode(END, add_special_tokens=False).ids[0]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "TokenServer":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/tool", self._call)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": MODEL, "max_model_len": CONTEXT}]})

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.authorizations.add(request.headers.get("Authorization"))
        prompt_text = self._tokenizer.decode(body["prompt"], skip_special_tokens=False)
        self.asked[prompt_text] += 1
        number = self.asked.total()
        await asyncio.sleep(0.01)
        while number > self.most_answered:  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        answer = self.script(prompt_text, self.asked[prompt_text])
        if isinstance(answer, int):
            return web.json_response({"error": {"message": "as scripted"}}, status=answer)
        tokens = self._tokenizer.encode(answer, add_special_tokens=False).ids
        tokens = [*tokens, self._end][: body["max_tokens"]]
        choice = {
            "index": 0,
            "text": "",
            "finish_reason": "stop" if tokens[-1] == self._end else "length",
            "token_ids": tokens,
            "logprobs": {"token_logprobs": [-0.25] * len(tokens)},
        }
        return web.json_response({"choices": [choice]})

    async def _call(self, request: web.Request) -> web.Response:
        self.tool_calls += 1
        return web.Response(text=self.tool(await request.json()))
