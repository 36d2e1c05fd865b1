"""Several engines, and the division of GPUs."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.placement import OnlinePlacement, PlacementMode
from services.inference.token_engine.base import TurnSampling
from services.inference.vllm.control import VllmControl
from services.trainer.rl.policy_server import handle
from services.trainer.rl.policy_server.placement import Devices, divide
from services.trainer.rl.policy_server.sampling_time import SamplingTime
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.trainer.rl.policy_server.policy import policy, says

TURN = TurnSampling(max_tokens=2)
GPUS = ["a", "b", "c", "d", "e"]


def test_requests_are_balanced_and_sessions_are_sticky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch, devices=[["a"], ["b"]]) as given:
            given.pace.hold(0)
            of_session = replace(TURN, session="one")
            turns = [
                asyncio.create_task(given.engine.generate([each], sampling))
                for each, sampling in enumerate([of_session, of_session, of_session, TURN, TURN])
            ]
            while sum(server.generating for server in given.servers) < 5:  # noqa: ASYNC110 - another task changes it
                await asyncio.sleep(0.001)

            assert sorted(server.generating for server in given.servers) == [2, 3]
            given.pace.release()
            await asyncio.gather(*turns)

    asyncio.run(play())


def test_all_servers_load_new_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch, devices=[["a"], ["b"]]) as given:
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            turns = [given.engine.generate([each], TURN) for each in range(8)]

            sampled = await asyncio.gather(*turns)

            assert all(each.log_probs == (-2.0,) * 2 for each in sampled)
            assert all("/inference/v1/generate" in server.calls for server in given.servers)

    asyncio.run(play())


def test_an_engine_samples_while_a_server_with_requests_runs() -> None:
    async def seconds() -> list[float]:
        sampling, counted = SamplingTime(), list[float]()
        one, other = sampling.add_server(), sampling.add_server()

        async def passes(seconds: float) -> None:
            before = sampling.seconds
            await asyncio.sleep(seconds)
            counted.append(sampling.seconds - before)

        await passes(1.0)  # nothing is asked
        with one.request(), one.request():
            await passes(2.0)
            with one.pause():
                await passes(4.0)
                with other.request():
                    await passes(8.0)
            one.set_awake(False)
            await passes(16.0)
            one.set_awake(True)
            await passes(32.0)
        return counted

    assert run_in_virtual_time(seconds()) == [0.0, 2.0, 0.0, 8.0, 0.0, 32.0]


def test_a_paused_engine_does_not_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with policy(tmp_path, monkeypatch) as given:
            update, while_paused = VllmControl.update, list[bool]()

            async def computed(*_: Any) -> None:
                """Asks for no probe before the pause, as the turn in flight holds the server."""

            async def loads(*args: Any) -> None:
                turns.append(asyncio.create_task(given.engine.generate([6], TURN)))  # it waits
                while_paused.append(await given.samples())
                given.pace.release()
                await update(*args)

            monkeypatch.setattr(handle, "prefill", computed)
            monkeypatch.setattr(VllmControl, "update", loads)
            assert not await given.samples()
            given.pace.hold(0)
            turns = [asyncio.create_task(given.engine.generate([5], TURN))]
            await given.in_flight(1)
            assert await given.samples()
            await given.engine.load(1, given.folder_of(2.0), says(2.0))
            await asyncio.gather(*turns)
            assert while_paused == [False]

            await given.engine.sleep()
            turns = [asyncio.create_task(given.engine.generate([7], TURN))]
            await given.in_flight(1)
            assert not await given.samples()
            await given.engine.wake()
            await asyncio.gather(*turns)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("gpus", "placement", "expected"),
    [
        ([], {}, Devices()),
        (["a"], {}, Devices(("a",), (("a",),), 0.45, False)),
        (GPUS, {}, Devices(("a", "b"), (("c",), ("d",), ("e",)))),
        (GPUS[:2], {"mode": PlacementMode.SPLIT}, Devices(("a",), (("b",),))),
        (GPUS, {"trainer_gpus": 4}, Devices(("a", "b", "c", "d"), (("e",),))),
        (
            ["a", "b"],
            {"mode": PlacementMode.COLOCATED, "engine_memory": 0.3, "sleep": True},
            Devices(("a", "b"), (("a",), ("b",)), 0.3, True),
        ),
    ],
)
def test_gpus_are_divided(gpus: list[str], placement: object, expected: Devices) -> None:
    assert divide(gpus, OnlinePlacement.model_validate(placement)) == expected


def test_engines_use_complete_sets_of_gpus() -> None:
    devices = divide(GPUS, OnlinePlacement(trainer_gpus=1), gpus_per_engine=2)

    assert devices.engines == (("b", "c"), ("d", "e"))


@pytest.mark.parametrize(
    ("gpus", "placement", "field"),
    [
        (["a"], {"mode": "split"}, "placement.trainer_gpus"),
        ([], {"mode": "split"}, "placement.mode"),
        (["a", "b"], {"trainer_gpus": 2}, "placement.trainer_gpus"),
    ],
)
def test_too_few_gpus_are_refused_naming_the_field(
    gpus: list[str], placement: object, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        divide(gpus, OnlinePlacement.model_validate(placement, strict=False))

    assert refused.value.param == field
