"""A scripted server: token ids in and out, and a tool."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

from tests.support.threaded_server import ThreadedServer

Script = Callable[[str, int], str | int]
"""From the text so far, and how often it was asked, to what the model says; or a status code."""

MODEL = "scripted"
CONTEXT = 4096
END = "<|im_end|>"


class TokenServer(ThreadedServer):
    """Serves /v1/models, /v1/completions and /tool on a free port until the block ends.

    ``folder`` holds the tokenizer. /tool answers what ``tool`` makes of its arguments.
    """

    def __init__(
        self,
        folder: Path,
        script: Script,
        tool: Callable[[dict[str, Any]], str] = json.dumps,
    ) -> None:
        super().__init__()
        self.script = script
        self.tool = tool
        self.asked: Counter[str] = Counter()
        self.most_answered: float = math.inf  # completions beyond these are held back
        self.tool_calls = 0
        self.authorizations: set[str | None] = set()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._end = self._tokenizer.encode(END, add_special_tokens=False).ids[0]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.post("/v1/completions", self._complete),
            web.post("/tool", self._call),
        ]

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
