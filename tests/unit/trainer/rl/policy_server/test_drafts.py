"""Engines that are restarted with drafts and without, and drafts that are switched off."""

import asyncio
from pathlib import Path

import pytest

from services.contracts.engine import Drafts
from services.inference.token_engine.base import TurnSampling
from tests.unit.trainer.rl.policy_server.policy import Policy, policy, says

PROMPT = [1, 2, 3]


async def turn_over(given: Policy, drafts: Drafts | None) -> str | None:
    """Restart the engine under a turn, which has to be sampled with the weights 2.0."""
    given.pace.hold(2)
    turn = asyncio.create_task(given.engine.generate(PROMPT, TurnSampling(max_tokens=9)))
    await given.in_flight(1)
    failure = await given.engine.speculate(drafts)
    given.pace.release()
    sampled = await turn
    assert (sampled.log_probs, sampled.policy_versions) == ((-2.0,) * 9, (1,) * 9)
    return failure


def test_drafts_begin_and_end_under_a_turn_with_the_weights_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))

            assert await turn_over(given, Drafts()) is None
            assert await turn_over(given, None) is None

            assert [server.drafts for server in given.servers] == [None, True, None]

    asyncio.run(play())


def test_an_engine_that_does_not_start_with_drafts_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            given.faults.no_drafts = True

            assert await turn_over(given, Drafts()) == "vLLM exited with code 1"

            assert given.servers[-1].drafts is None
            report = await given.engine.load(2, given.folder_of(3.0), says(3.0))
            assert report.restarted is None

    asyncio.run(play())


def test_drafts_stay_switched_off_in_the_process_that_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.draft(on=False)
            assert "/collective_rpc" not in given.servers[0].calls, "it was started without drafts"

            await given.engine.speculate(Drafts())
            await given.engine.draft(on=False)
            assert given.servers[-1].drafts is False
            await given.servers[-1].die()
            await given.engine.generate(PROMPT, TurnSampling(max_tokens=1))
            assert [server.drafts for server in given.servers] == [None, False, False]

            await given.engine.draft(on=True)
            assert given.servers[-1].drafts is True

    asyncio.run(play())
