"""The relay lets the gateway alone at the engine, and at its routes of inference alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from services.evaluator.serve.activity import Activity
from services.evaluator.serve.adapters import Adapters
from services.evaluator.serve.engine import ServedEngine
from services.inference.relay import Destination, Relay
from services.inference.relay_protocol import ADAPTER_HEADER, REFUSAL_HEADER, Refusal
from services.inference.vllm.control import VllmControl
from tests.support.engines.stand_in import KEY, EngineStandIn

BODY = {"model": "base", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


@dataclass
class Case:
    """A relay before an engine, and a client of it."""

    relay: Relay
    engine: EngineStandIn
    activity: Activity
    http: aiohttp.ClientSession

    async def post(
        self, path: str = CHAT, *, secret: str | None = None, **headers: str
    ) -> aiohttp.ClientResponse:
        key = {"Authorization": f"Bearer {secret or self.relay.secret}"}
        return await self.http.post(self.relay.url + path, json=BODY, headers={**key, **headers})

    async def ask(self, prompt: str, *, stream: bool = False) -> aiohttp.ClientResponse:
        body = {**BODY, "messages": [{"role": "user", "content": prompt}], "stream": stream}
        key = {"Authorization": f"Bearer {self.relay.secret}"}
        return await self.http.post(self.relay.url + CHAT, json=body, headers=key)


@asynccontextmanager
async def relayed() -> AsyncIterator[Case]:
    engine, activity = EngineStandIn(), Activity()
    await engine.start()
    try:
        async with (
            VllmControl(f"{engine.url}/v1", KEY) as control,
            Relay(
                ServedEngine(
                    Destination(engine.url, KEY),
                    Adapters(control, None, Path("unused")),
                    activity,
                ),
                "127.0.0.1",
            ) as relay,
            aiohttp.ClientSession() as http,
        ):
            yield Case(relay, engine, activity, http)
    finally:
        await engine.stop()


def test_only_the_secret_opens_the_relay_and_the_engines_key_is_not_it() -> None:
    async def run() -> None:
        async with relayed() as case:
            assert (await case.post(secret="guess")).status == 401
            assert (await case.post(secret=KEY)).status == 401
            assert case.engine.bodies == []
            assert (await case.post()).status == 200

    asyncio.run(run())


def test_routes_that_change_the_engine_cannot_be_reached() -> None:
    async def run() -> None:
        async with relayed() as case:
            for path in ("/v1/load_lora_adapter", "/collective_rpc", "/sleep", "/v1/../sleep"):
                assert (await case.post(path)).status == 404

    asyncio.run(run())


def test_a_leaving_relay_refuses_so_that_the_gateway_looks_again() -> None:
    async def run() -> None:
        async with relayed() as case:
            case.activity.leave("idle")
            refused = await case.post()
            assert refused.headers[REFUSAL_HEADER] == Refusal.LEAVING
            assert case.engine.bodies == []

    asyncio.run(run())


def test_an_engine_that_is_gone_is_not_an_answer() -> None:
    async def run() -> None:
        async with relayed() as case:
            await case.engine.stop()
            assert (await case.post()).headers[REFUSAL_HEADER] == Refusal.ENGINE_GONE

    asyncio.run(run())


def test_an_answer_cut_short_by_the_end_of_the_engine_is_not_an_answer() -> None:
    async def run() -> None:
        async with relayed() as case:
            refused = await case.ask("abort")
            assert refused.headers[REFUSAL_HEADER] == Refusal.ENGINE_DIED

            stream = await case.ask("abort", stream=True)
            with pytest.raises(aiohttp.ClientError):
                await stream.read()

    asyncio.run(run())


def test_a_stream_passes_with_the_headers_that_do_not_end_at_the_relay() -> None:
    async def run() -> None:
        async with relayed() as case:
            stream = await case.ask("hi", stream=True)
            body = await stream.read()
            assert (body[:6], body[-8:]) == (b"data: ", b"[DONE]\n\n")
            assert stream.headers["X-Engine"] == "stand-in"
            assert "X-Hop" not in stream.headers

    asyncio.run(run())


def test_text_that_looks_like_the_mark_of_a_cut_answer_is_passed_on() -> None:
    text = '"finish_reason":"abort"'

    async def run() -> None:
        async with relayed() as case:
            answer = await (await case.ask(text)).json()
            assert answer["choices"][0]["message"]["content"] == f"echo: {text}"

    asyncio.run(run())


def test_a_header_that_is_not_ours_is_refused() -> None:
    async def run() -> None:
        async with relayed() as case:
            refused = await case.post(**{ADAPTER_HEADER: "zz"})
            assert refused.status == 400
            assert (await refused.json())["error"]["code"] == "invalid_request"

    asyncio.run(run())
