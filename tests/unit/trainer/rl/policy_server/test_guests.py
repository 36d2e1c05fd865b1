"""Requests of the gateway to the policy that a training samples with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services.contracts.errors import Unavailable
from services.inference.relay_protocol import ADAPTER_HEADER, ServedAdapter, read_endpoint
from services.trainer.rl.policy_server import server
from services.trainer.rl.policy_server.guests import MAX_GUESTS, PolicyGuests, open_to_guests
from services.trainer.rl.spec import GuestSpec
from tests.unit.trainer.rl.policy_server.policy import Policy, policy, says

EPOCH = 3
MESSAGES = [{"role": "user", "content": "hi"}]


@dataclass
class Gateway:
    """A gateway's view of a training: its relay's address and secret."""

    http: aiohttp.ClientSession
    url: str
    secret: str

    async def ask(self, **headers: str) -> tuple[int, Any]:
        """The status and body of the answer to a request."""
        key = {"Authorization": f"Bearer {self.secret}"}
        body = {"model": "run:ftjob-1", "messages": MESSAGES}
        post = self.http.post(
            f"{self.url}/v1/chat/completions", json=body, headers={**key, **headers}
        )
        async with post as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def opened(given: Policy) -> AsyncIterator[Gateway]:
    """A training that is open to guests."""
    spec = GuestSpec(host="127.0.0.1", epoch=EPOCH)
    async with open_to_guests(given.engine, spec, given.folder), aiohttp.ClientSession() as http:
        found = read_endpoint(given.folder, EPOCH)
        assert found is not None
        yield Gateway(http, found.url, found.secret)


@pytest.mark.parametrize("lora_rank", [None, 8])
def test_a_guest_gets_the_current_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora_rank: int | None
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch, lora_rank=lora_rank) as given:
            async with opened(given) as gateway:
                assert (await gateway.ask())[1]["says"] == 1.0
                await given.engine.load(1, given.folder_of(2.0), says(2.0))
                status, answer = await gateway.ask()
            assert (status, answer["says"]) == (200, 2.0)
            assert read_endpoint(given.folder, EPOCH) is None

    asyncio.run(play())


def test_an_adapter_stays_while_a_guest_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch, lora_rank=8) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            async with given.engine.guest() as destination:
                await given.engine.load(2, given.folder_of(3.0), says(3.0))
                assert destination.fields["model"] == "policy-1-0"
                assert destination.fields["priority"] == 1
                assert "/v1/unload_lora_adapter" not in given.servers[0].calls

            await given.engine.load(3, given.folder_of(4.0), says(4.0))

            assert given.servers[0].calls.count("/v1/unload_lora_adapter") == 2

    asyncio.run(play())


def test_guests_are_dismissed_when_the_engine_sleeps_and_refused_until_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            inside = asyncio.Event()

            async def stay() -> None:
                async with given.engine.guest():
                    inside.set()
                    await asyncio.Event().wait()

            guest = asyncio.create_task(stay())
            await inside.wait()
            await given.engine.sleep()
            assert guest.cancelled()

            monkeypatch.setattr(server, "GUEST_SECONDS", 0.01)
            async with opened(given) as gateway:
                status, answer = await gateway.ask()
                assert (status, answer["error"]["code"]) == (503, "model_not_ready")
                await given.engine.wake()
                assert (await gateway.ask())[0] == 200

    asyncio.run(play())


def test_concurrent_guests_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given, AsyncExitStack() as stack:
            guests = PolicyGuests(given.engine)
            for _ in range(MAX_GUESTS):
                await stack.enter_async_context(guests.using(None))

            with pytest.raises(Unavailable, match="are in progress"):
                await stack.enter_async_context(guests.using(None))

            await stack.aclose()
            async with guests.using(None):
                pass

    asyncio.run(play())


def test_guests_cannot_load_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given, opened(given) as gateway:
            header = ServedAdapter(name="other", path=tmp_path).header()
            status, _ = await gateway.ask(**{ADAPTER_HEADER: header})

            assert status == 400
            assert not any("lora" in call for call in given.servers[0].calls)

    asyncio.run(play())
