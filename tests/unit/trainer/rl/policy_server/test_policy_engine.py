"""Sampling while weights are swapped and servers fail."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from services.inference.token_engine.base import EngineFailed, TurnSampling
from services.inference.token_engine.vllm import GENERATE
from services.inference.vllm.server import VllmFailed
from services.trainer.rl.policy_server.handle import ServerHandle
from services.trainer.rl.weight_sync import EngineOutOfSync, WeightChanges
from tests.unit.trainer.rl.policy_server.policy import policy, says

PROMPT = [1, 2, 3]
TURN = TurnSampling(max_tokens=4)


def test_loaded_weights_are_sampled_under_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            before = await given.engine.generate(PROMPT, TURN)
            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))
            after = await given.engine.generate(PROMPT, TURN)

            assert (before.log_probs, before.policy_versions) == ((-1.0,) * 4, (0,) * 4)
            assert (after.log_probs, after.policy_versions) == ((-2.0,) * 4, (1,) * 4)
            assert (report.version, report.restarted, report.largest_difference) == (1, None, 0.0)
            assert given.engine.version == 1
            assert len(given.servers) == 1

    asyncio.run(play())


def test_turn_in_progress_continues_with_new_weights_and_labels_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.pace.hold(3)
            turn = asyncio.create_task(given.engine.generate(PROMPT, TurnSampling(max_tokens=9)))
            await given.in_flight(1)
            loading = asyncio.create_task(given.engine.load(1, given.folder_of(2.0), says(2.0)))
            given.pace.release()
            await loading

            sampled = await turn

            split = sampled.policy_versions.count(0)
            assert sampled.policy_versions == (0,) * split + (1,) * (9 - split)
            assert sampled.log_probs == (-1.0,) * split + (-2.0,) * (9 - split)

    asyncio.run(play())


@pytest.mark.parametrize("fault", ["reload_ignored", "cache_kept"])
def test_engine_with_stale_state_is_restarted(
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


def test_engine_that_missed_an_update_within_the_tolerance_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            current = await given.engine.load(1, given.folder_of(1.001), says(1.001, previous=1.0))
            assert current.restarted is None
            given.faults.reload_ignored = True

            asked = len(given.servers[0].calls)
            report = await given.engine.load(2, given.folder_of(1.002), says(1.002, previous=1.001))

            again = given.servers[0].calls[asked:]
            assert again[:2] == [GENERATE, "/pause"], (
                "known probes are not scored again before the swap"
            )
            assert report.restarted == "its log-probabilities did not follow the update"
            sampled = await given.engine.generate(PROMPT, TURN)
            assert sampled.log_probs[0] == -1.002

    asyncio.run(play())


def test_only_a_server_with_their_base_loads_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            for version, base in ((1, 0), (2, 0), (3, 2)):
                number = 1.0 + version
                changes = WeightChanges(base, ["norm.weight"])
                await given.engine.load(version, given.folder_of(number), says(number), changes)
            (server,) = given.servers
            assert [
                (each["version"], each.get("base"), each.get("names")) for each in server.updates
            ] == [(1, 0, ["norm.weight"]), (2, None, None), (3, 2, ["norm.weight"])]

            # Restarted in between, it has loaded everything.
            await server.die()
            await given.engine.generate([1], TurnSampling(max_tokens=1))
            changes = WeightChanges(3, ["norm.weight"])
            await given.engine.load(4, given.folder_of(5.0), says(5.0), changes)
            assert [each["base"] for each in given.servers[-1].updates] == [3]
            assert given.servers[-1].started_with == 4.0

    asyncio.run(run())


@pytest.mark.parametrize("route", ["/pause", "/update_weights", "/reset_prefix_cache", "/resume"])
def test_interrupted_weight_swap_restarts_the_server(
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


def test_engine_that_stays_out_of_sync_fails_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            with pytest.raises(EngineOutOfSync, match=r"version 1 .* differ by 1 on average"):
                await given.engine.load(1, given.folder_of(2.0), says(3.0))

            with pytest.raises(EngineFailed, match="has failed"):
                await given.engine.generate(PROMPT, TURN)
            with pytest.raises(EngineFailed, match="has failed"):
                await given.engine.watch()

    asyncio.run(play())


def test_tokens_of_unverified_weights_are_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            given.pace.hold(2)
            turns = [asyncio.create_task(given.engine.generate(PROMPT, TURN)) for _ in range(3)]
            await given.in_flight(3)
            given.faults.cache_kept = True
            loading = asyncio.create_task(given.engine.load(1, given.folder_of(2.0), says(2.0)))
            given.pace.release()

            assert (await loading).restarted is not None
            for sampled in await asyncio.gather(*turns):
                assert sampled.policy_versions == (1,) * 4
                assert sampled.log_probs == (-2.0,) * 4

    asyncio.run(play())


def test_dead_server_is_replaced_and_requests_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            given.pace.hold(2)
            turns = [asyncio.create_task(given.engine.generate(PROMPT, TURN)) for _ in range(3)]
            await given.in_flight(3)
            await given.servers[0].die()
            given.pace.release()

            for sampled in await asyncio.gather(*turns):
                assert (sampled.log_probs, sampled.policy_versions) == ((-2.0,) * 4, (1,) * 4)
            assert len(given.servers) == 2

    asyncio.run(play())


def test_server_that_keeps_dying_costs_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            for _ in range(3):
                await given.servers[-1].die()
                await given.engine.generate(PROMPT, TURN)
            await given.servers[-1].die()

            with pytest.raises(EngineFailed, match=r"died 4 times .*: vLLM was killed") as watched:
                await given.engine.watch()
            with pytest.raises(EngineFailed, match="died 4 times") as asked:
                await given.engine.generate(PROMPT, TURN)

            assert watched.value.retryable
            assert asked.value.retryable

    asyncio.run(play())


def test_server_that_cannot_be_replaced_costs_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:

            async def fail(*_: Any) -> Any:
                raise VllmFailed("vLLM exited with code 1: out of memory", [])

            monkeypatch.setattr(ServerHandle, "start", fail)
            await given.servers[-1].die()

            with pytest.raises(VllmFailed, match="out of memory") as raised:
                await given.engine.watch()
            assert raised.value.retryable

    asyncio.run(play())


def test_refused_request_does_not_restart_the_server(
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
            await given.in_flight(1)
            assert not turn.done()

            await given.engine.wake()

            assert (await turn).policy_versions == (0,) * 4
            assert len(given.servers) == 1

    asyncio.run(play())


def test_engine_that_cannot_be_put_to_sleep_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ServerHandle.start

    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:

            async def repaired(*which: Any) -> ServerHandle:
                given.faults.refuses.clear()
                return await start(*which)

            monkeypatch.setattr(ServerHandle, "start", repaired)
            given.faults.refuses.add("/sleep")

            await given.engine.sleep()
            await given.engine.wake()

            await given.engine.generate(PROMPT, TURN)
            assert len(given.servers) == 2

    asyncio.run(play())


@pytest.mark.parametrize("way", ["wake", "load"])
def test_engine_that_does_not_wake_up_is_restarted(
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
