"""What the engine samples from while its weights change and its servers fail."""

import asyncio
from pathlib import Path

import pytest

from services.inference.token_engine.interface import EngineFailed, TurnSampling
from services.trainer.rl.policy_server import EngineOutOfSync
from tests.unit.trainer.rl.policy_server.policy import policy, says

PROMPT = [1, 2, 3]
TURN = TurnSampling(max_tokens=4)


def test_weights_that_were_loaded_are_sampled_from_under_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            before = await given.engine.generate(PROMPT, TURN)
            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))
            after = await given.engine.generate(PROMPT, TURN)

            assert (before.log_probs, before.policy_versions) == ((-1.0,) * 4, (0,) * 4)
            assert (after.log_probs, after.policy_versions) == ((-2.0,) * 4, (1,) * 4)
            assert (report.version, report.restarted, report.mean_difference) == (1, None, 0.0)
            assert given.engine.version == 1
            assert len(given.servers) == 1

    asyncio.run(play())


def test_a_turn_under_way_goes_on_with_new_weights_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.pace.hold(3)
            turn = asyncio.create_task(given.engine.generate(PROMPT, TurnSampling(max_tokens=9)))
            await given.under_way(1)
            loading = asyncio.create_task(given.engine.load(1, given.folder_of(2.0), says(2.0)))
            given.pace.release()
            await loading

            sampled = await turn

            split = sampled.policy_versions.count(0)
            assert sampled.policy_versions == (0,) * split + (1,) * (9 - split)
            assert sampled.log_probs == (-1.0,) * split + (-2.0,) * (9 - split)

    asyncio.run(play())


@pytest.mark.parametrize("fault", ["reload_ignored", "cache_kept"])
def test_an_engine_that_kept_something_old_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            setattr(given.faults, fault, True)

            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))

            assert report.restarted is not None
            assert "log-probabilities differ by" in report.restarted
            assert report.largest_difference == 0.0
            sampled = await given.engine.generate(PROMPT, TURN)
            assert (sampled.log_probs[0], sampled.policy_versions[0]) == (-2.0, 1)
            assert len(given.servers) == 2

    asyncio.run(play())


@pytest.mark.parametrize("route", ["/pause", "/collective_rpc", "/reset_prefix_cache", "/resume"])
def test_an_exchange_that_breaks_off_is_repaired_by_a_new_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.faults.refuses.add(route)

            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))

            assert report.restarted == f"vLLM answered 500 to {_sent(route)}: refused"
            assert (await given.engine.generate(PROMPT, TURN)).policy_versions == (1,) * 4

    asyncio.run(play())


def _sent(route: str) -> str:
    queries = {
        "/pause": "?mode=keep",
        "/reset_prefix_cache": "?reset_running_requests=true",
    }
    return route + queries.get(route, "")


def test_an_engine_that_stays_out_of_step_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            with pytest.raises(EngineOutOfSync, match=r"version 1 .* differ by 1 on average"):
                await given.engine.load(1, given.folder_of(2.0), says(3.0))

            with pytest.raises(EngineFailed, match="given up"):
                await given.engine.generate(PROMPT, TURN)
            with pytest.raises(EngineFailed, match="given up"):
                await given.engine.watch()

    asyncio.run(play())


def test_no_token_of_weights_that_are_found_wrong_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.pace.hold(2)
            turns = [asyncio.create_task(given.engine.generate(PROMPT, TURN)) for _ in range(3)]
            await given.under_way(3)
            given.faults.cache_kept = True
            loading = asyncio.create_task(given.engine.load(1, given.folder_of(2.0), says(2.0)))
            given.pace.release()

            assert (await loading).restarted is not None
            for sampled in await asyncio.gather(*turns):
                assert sampled.policy_versions == (1,) * 4
                assert sampled.log_probs == (-2.0,) * 4

    asyncio.run(play())


def test_a_server_that_ends_is_replaced_under_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            given.pace.hold(2)
            turns = [asyncio.create_task(given.engine.generate(PROMPT, TURN)) for _ in range(3)]
            await given.under_way(3)
            await given.servers[0].die()
            given.pace.release()

            for sampled in await asyncio.gather(*turns):
                assert (sampled.log_probs, sampled.policy_versions) == ((-2.0,) * 4, (1,) * 4)
            assert len(given.servers) == 2

    asyncio.run(play())


def test_a_server_that_ends_again_and_again_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            for _ in range(3):
                await given.servers[-1].die()
                await given.engine.generate(PROMPT, TURN)
            await given.servers[-1].die()

            with pytest.raises(EngineFailed, match="ended 4 times"):
                await given.engine.watch()

    asyncio.run(play())


def test_a_request_that_is_refused_is_not_taken_for_a_dead_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.faults.refuses.add("/inference/v1/generate")

            with pytest.raises(EngineFailed, match="500"):
                await given.engine.generate(PROMPT, TURN)

            assert len(given.servers) == 1

    asyncio.run(play())


def test_requests_wait_while_the_engine_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.sleep()
            turn = asyncio.create_task(given.engine.generate(PROMPT, TURN))
            await given.under_way(1)
            assert not turn.done()

            await given.engine.wake()

            assert (await turn).policy_versions == (0,) * 4
            assert len(given.servers) == 1

    asyncio.run(play())


@pytest.mark.parametrize("way", ["wake", "load"])
def test_an_engine_that_does_not_wake_up_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.sleep()
            given.faults.never_wakes = True

            if way == "wake":
                await given.engine.wake()
            else:
                await given.engine.load(1, given.folder_of(2.0), says(2.0))

            sampled = await given.engine.generate(PROMPT, TURN)
            assert sampled.log_probs[0] == (-1.0 if way == "wake" else -2.0)
            assert len(given.servers) == 2

    asyncio.run(play())
