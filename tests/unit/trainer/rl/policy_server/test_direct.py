"""Weights that reach an engine without files."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.contracts.base import JsonObject
from services.contracts.training.optimizer import OptimizerSettings, TrainingType
from services.inference.token_engine.base import TurnSampling
from services.trainer.rl.direct import DirectTransport, Transport
from services.trainer.rl.policy_server.placement import Devices, transport_of
from tests.unit.trainer.rl.policy_server.policy import policy, says

TURN = TurnSampling(max_tokens=2)
FULL = OptimizerSettings(training_type=TrainingType.FULL)
TWO = (("0",), ("1",))


@dataclass
class SendingLearner:
    """Its weights are a number, which it sends in two parts; it answers one request at a time."""

    number: float = 1.0
    sends: bool = True
    log: list[str] = field(default_factory=list)
    _parts: int = 0
    _busy: bool = False

    async def send_chunk(self) -> JsonObject | None:
        await self._answer("chunk")
        self._parts += 1
        return {"number": self.number} if self._parts < 3 else None

    async def end_chunks(self) -> None:
        await self._answer("end")
        self._parts = 0

    async def describe(self) -> JsonObject:
        await self._answer("describe")
        return {"number": self.number}

    async def make_group(self) -> str:
        await self._answer("make")
        return "id"

    async def join_group(self, engine: str, size: int) -> None:
        await self._answer(f"join {engine} of {size}")

    async def broadcast(self, engine: str) -> None:
        await self._answer(f"broadcast {engine}")

    async def _answer(self, request: str) -> None:
        assert not self._busy
        self._busy = True
        self.log.append(request)
        await asyncio.sleep(0)
        self._busy = False


@pytest.mark.parametrize(
    ("devices", "optimizer", "transport"),
    [
        (Devices(), FULL, Transport.FILES),
        (Devices(("0",), (("0",),)), FULL, Transport.IPC),
        (Devices(("0",), (("0",),)), OptimizerSettings(training_type=TrainingType.LORA), "files"),
        (Devices(("0", "1"), TWO), FULL, Transport.FILES),
        (Devices(("0",), (("1", "2"), ("3", "4"))), FULL, Transport.NCCL),
        (Devices(("0", "1"), (("2",),)), FULL, Transport.NCCL),
        (Devices(("0", "1"), (("2",),)), FULL.model_copy(update={"strategy": "fsdp"}), "files"),
    ],
)
def test_weights_take_the_way_that_the_devices_have(
    devices: Devices, optimizer: OptimizerSettings, transport: str
) -> None:
    assert transport_of(devices, optimizer) == transport


def test_an_engine_on_the_same_gpu_gets_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        learner, told = SendingLearner(), list[str]()
        direct = DirectTransport(learner, Transport.IPC, told.append)
        async with policy(tmp_path, monkeypatch, devices=[["0"]], direct=direct) as given:
            for version, number in ((1, 2.0), (2, 3.0)):
                learner.number = number
                report = await given.engine.load(version, tmp_path / "none", says(number))
                assert report.restarted is None
                sampled = await given.engine.generate([1], TURN)
                assert (sampled.log_probs, set(sampled.policy_versions)) == (
                    (-number,) * 2,
                    {version},
                )
            part = [{"number": number, "version": v} for v, number in ((1, 2.0), (2, 3.0))]
            assert given.servers[0].updates == [part[0]] * 2 + [part[1]] * 2
            assert learner.log == ["chunk", "chunk", "chunk", "end"] * 2
        assert told == []

    asyncio.run(run())


def test_engines_on_other_gpus_join_once_and_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        learner, told = SendingLearner(), list[str]()
        direct = DirectTransport(learner, Transport.NCCL, told.append)
        async with policy(tmp_path, monkeypatch, devices=TWO, direct=direct) as given:
            for version in (1, 2):
                learner.number = version + 1.0
                folder = given.folder_of(learner.number)
                report = await given.engine.load(version, folder, says(learner.number))
                assert report.restarted is None
            names = ["vllm-1.log", "vllm.log"]
            assert sorted(learner.log) == sorted(
                ["make"] * 2
                + ["describe"] * 4
                + [f"join {name} of 2" for name in names]
                + [f"broadcast {name}" for name in names] * 2
            )
            learner.log.clear()
            await given.servers[1].die()
            while len(given.servers) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            learner.number = 9.0
            await given.engine.load(3, given.folder_of(9.0), says(9.0))
            assert learner.log.count("make") == 1
        assert told == []

    asyncio.run(run())


def test_an_engine_that_refuses_a_part_leaves_no_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        learner, told = SendingLearner(number=2.0), list[str]()
        direct = DirectTransport(learner, Transport.IPC, told.append)
        async with policy(tmp_path, monkeypatch, devices=[["0"]], direct=direct) as given:
            given.faults.refuses.add("/update_weights")
            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))
            assert report.restarted is not None
        assert learner.log == ["chunk", "end"]
        assert "vLLM answered 500 to /update_weights" in told[0]

    asyncio.run(run())


def test_a_transport_that_fails_is_replaced_by_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        learner, told, prepared = SendingLearner(), list[str](), list[int]()
        direct = DirectTransport(learner, Transport.IPC, told.append)

        async def prepare(version: int) -> None:
            prepared.append(version)

        async with policy(
            tmp_path, monkeypatch, devices=[["0"]], direct=direct, prepare=prepare
        ) as given:
            learner.number = 5.0  # not what the engine should get
            report = await given.engine.load(1, given.folder_of(2.0), says(2.0))
            assert report.restarted is not None
            assert prepared == [1]
            assert given.servers[-1].started_with == 2.0
            await given.engine.load(2, given.folder_of(3.0), says(3.0))
            assert [each.get("folder") for each in given.servers[-1].updates] == [
                str(given.folder_of(3.0))
            ]
        (text,) = told
        assert "CUDA IPC failed: its log-probabilities differ" in text

    asyncio.run(run())
