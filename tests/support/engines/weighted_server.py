"""A server with vLLM's routes for tokens and weights, in the loop of a test. A set of weights is
one number: every token of theirs has that log-probability, negated."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from services.inference.vllm.server import VllmFailed
from services.trainer.rl.policy_server.handle import BASE

KEY = "key"
FILE = "weight.json"


def weights(folder: Path, number: float) -> Path:
    """A folder as a learner publishes it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(number))
    return folder


@dataclass
class Faults:
    """What goes wrong in every server of a test."""

    reload_ignored: bool = False
    cache_kept: bool = False
    refuses: set[str] = field(default_factory=set)
    no_drafts: bool = False
    never_wakes: bool = False


class Pace:
    """How many tokens may still be sampled, over all servers."""

    def __init__(self) -> None:
        self._left = asyncio.Semaphore(1 << 30)

    def hold(self, allowed: int) -> None:
        """Sample that many tokens and no more."""
        self._left = asyncio.Semaphore(allowed)

    def release(self) -> None:
        """Sample on, without a limit."""
        held, self._left = self._left, asyncio.Semaphore(1 << 30)
        for _ in range(10_000):
            held.release()

    async def token(self) -> None:
        """Wait until a token may be sampled."""
        await self._left.acquire()


class WeightedServer:
    """Stands for a `VllmServer`: an async context manager that serves while its block runs."""

    def __init__(
        self, folder: Path, faults: Faults, pace: Pace, *, drafts: bool | None = None
    ) -> None:
        self.drafts = drafts
        self.started_with = _read(folder)
        self._weights = {BASE: self.started_with}
        self._faults = faults
        self._pace = pace
        self._version = "default"
        self._running = asyncio.Event()
        self._running.set()
        self._dead = asyncio.Event()
        self._asleep = False
        self._cache: dict[tuple[int, ...], float] = {}
        self.calls: list[str] = []
        self.updates: list[dict[str, Any]] = []
        self.generating = 0
        self.api_key = KEY
        self.base_url = ""

    async def __aenter__(self) -> Self:
        if self.drafts and self._faults.no_drafts:
            raise VllmFailed("vLLM exited with code 1", [])
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    async def die(self) -> None:
        """End as a process that is killed."""
        self._dead.set()
        await self._runner.cleanup()

    @property
    def ended(self) -> bool:
        return self._dead.is_set()

    async def watch(self) -> None:
        await self._dead.wait()
        raise VllmFailed("vLLM was killed", [])

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        path = request.path
        self.calls.append(path)
        if path in self._faults.refuses:
            raise web.HTTPInternalServerError(text="refused")
        body = await request.json() if request.can_read_body else {}
        if path == "/inference/v1/generate":
            return web.json_response(await self._generate(body))
        if path == "/v1/chat/completions":
            await self._running.wait()
            return web.json_response({"model": body["model"], "says": self._weights[body["model"]]})
        return web.json_response(self._control(path, body))

    def _control(self, path: str, body: dict[str, Any]) -> object:
        match path:
            case "/pause" | "/sleep":
                self._asleep = path == "/sleep"
                self._running.clear()
            case "/resume" | "/wake_up":
                self._asleep = self._asleep and self._faults.never_wakes
                self._running.set()
            case "/is_sleeping":
                return {"is_sleeping": self._asleep}
            case "/update_weights":
                self.updates.append(body["update_info"])
                given = body["update_info"]
                if not self._faults.reload_ignored:
                    self._weights[BASE] = (
                        _read(Path(given["folder"])) if "folder" in given else given["number"]
                    )
            case "/collective_rpc":
                assert body["method"] in ("switch_drafts", "reset_encoder_cache")
                self.drafts = body.get("kwargs", {}).get("on", self.drafts)
            case "/reset_prefix_cache":
                if not self._faults.cache_kept:
                    self._cache.clear()
            case "/update_weight_version":
                self._version = body["new_version"]
            case "/v1/load_lora_adapter" | "/v1/unload_lora_adapter":
                self._adapter(body["lora_name"], body.get("lora_path"))
            case "/v1/models":
                return {"data": [{"id": BASE, "max_model_len": 64}]}
        return {"success": True}

    def _adapter(self, name: str, path: str | None) -> None:
        if path is not None:
            assert name not in self._weights
            self._weights[name] = _read(Path(path))
        elif self._weights.pop(name, None) is None:
            raise web.HTTPNotFound(text="it does not exist")

    async def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        name, sampling = body["model"], body["sampling_params"]
        if (top_k := sampling.get("prompt_logprobs")) is not None:
            return self._prompt(body["token_ids"], self._weights[name], top_k)
        prompt = tuple(body["token_ids"])
        stale = self._cache.setdefault((hash(name), *prompt), self._weights[name])
        spans: list[dict[str, Any]] = []
        content = []
        self.generating += 1
        for index in range(sampling["max_tokens"]):
            await self._pace.token()
            await self._running.wait()
            number = stale if self._faults.cache_kept else self._weights[name]
            content.append({"token_id": 1, "logprob": -number})
            if not spans or spans[-1]["version"] != self._version:
                spans.append({"version": self._version, "start": index, "end": index})
            spans[-1]["end"] += 1
        self.generating -= 1
        choice = {
            "token_ids": [1] * len(content),
            "finish_reason": "length",
            "logprobs": {"content": content},
            "weight_versions": spans,
        }
        return {"choices": [choice]}

    def _prompt(self, token_ids: list[int], number: float, top_k: int) -> dict[str, Any]:
        assert top_k == 1
        places = [{token: {"logprob": -number, "rank": 1}} for token in token_ids[1:]]
        choice = {"token_ids": [], "finish_reason": "length"}
        return {"choices": [choice], "prompt_logprobs": [None, *places]}


def _read(folder: Path) -> float:
    return float(json.loads((folder / FILE).read_bytes()))
