"""Versions of a policy that is an adapter."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from services.inference.token_engine.base import SampledTokens, TurnSampling
from tests.unit.trainer.rl.policy_server.policy import Policy, policy, says

PROMPT = [1, 2, 3]
TURN = TurnSampling(max_tokens=4)


Play = Callable[[Policy], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Play], None]:
    """Plays with a policy that is an adapter."""

    async def opened(play: Play) -> None:
        async with policy(tmp_path, monkeypatch, lora_rank=8) as given:
            await play(given)

    return lambda play: asyncio.run(opened(play))


async def load_during_a_turn(given: Policy) -> asyncio.Task[SampledTokens]:
    """Load version 2 while a turn is sampled, which is returned."""
    given.pace.hold(2)
    turn = asyncio.create_task(given.engine.generate(PROMPT, TURN))
    await given.in_flight(1)
    loading = asyncio.create_task(given.engine.load(2, given.folder_of(3.0), says(3.0)))
    given.pace.release()
    await loading
    return turn


def kept(given: Policy) -> list[str]:
    return sorted(each.name for each in (given.folder / "adapters").iterdir())


def test_turn_finishes_with_the_adapter_it_started_with(run: Callable[[Play], None]) -> None:
    async def play(given: Policy) -> None:
        await given.engine.load(1, given.folder_of(2.0), says(2.0))
        slow = await load_during_a_turn(given)
        new = await given.engine.generate(PROMPT, TURN)

        old = await slow

        assert (old.log_probs, old.policy_versions) == ((-2.0,) * 4, (1,) * 4)
        assert (new.log_probs, new.policy_versions) == ((-3.0,) * 4, (2,) * 4)
        assert "/pause" not in given.servers[0].calls

    run(play)


def test_adapter_is_kept_while_a_turn_needs_it(run: Callable[[Play], None]) -> None:
    async def play(given: Policy) -> None:
        await given.engine.load(1, given.folder_of(2.0), says(2.0))
        assert kept(given) == ["policy-1-0"]
        await given.engine.load(2, given.folder_of(3.0), says(3.0))

        assert kept(given) == ["policy-2-1"]
        assert given.servers[0].calls.count("/v1/unload_lora_adapter") == 1

    run(play)


def test_reloaded_version_gets_a_new_adapter_name(run: Callable[[Play], None]) -> None:
    async def play(given: Policy) -> None:
        await given.engine.load(1, given.folder_of(2.0), says(2.0))
        await given.engine.load(1, given.folder_of(3.0), says(3.0))

        sampled = await given.engine.generate(PROMPT, TURN)

        assert (sampled.log_probs[0], sampled.policy_versions[0]) == (-3.0, 1)

    run(play)


def test_restarted_server_reloads_the_adapter(run: Callable[[Play], None]) -> None:
    async def play(given: Policy) -> None:
        await given.engine.load(1, given.folder_of(2.0), says(2.0))
        await given.servers[0].die()

        sampled = await given.engine.generate(PROMPT, TURN)
        await given.engine.load(2, given.folder_of(3.0), says(3.0))

        assert (sampled.log_probs[0], sampled.policy_versions[0]) == (-2.0, 1)
        assert len(given.servers) == 2

    run(play)


def test_adapters_unknown_to_a_restarted_server_are_dropped(
    run: Callable[[Play], None],
) -> None:
    async def play(given: Policy) -> None:
        await given.engine.load(1, given.folder_of(2.0), says(2.0))
        turn = await load_during_a_turn(given)
        await given.servers[0].die()
        await turn
        await given.engine.generate(PROMPT, TURN)

        await given.engine.load(3, given.folder_of(4.0), says(4.0))

        assert kept(given) == ["policy-3-2"]

    run(play)
