"""An engine of servers whose weights are numbers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.trainer.rl.direct import DirectTransport
from services.trainer.rl.policy_server import PolicyEngine
from services.trainer.rl.policy_server.handle import PolicyWeights, ServerSpec
from services.trainer.rl.weight_sync import LogprobReference, Tolerance
from tests.support.engines.weighted_server import Faults, Pace, WeightedServer, weights

PROBES = [[5, 6, 7], [8, 9]]
LIMIT = 120.0


def says(number: float, previous: float | None = None) -> LogprobReference:
    """The probes' log-probabilities of a learner with these weights, and with those before."""
    now, before = (
        [[-each] * (len(probe) - 1) for probe in PROBES] for each in (number, previous or 0.0)
    )
    return LogprobReference(PROBES, now, None if previous is None else before)


@dataclass
class Policy:
    """An engine, its servers in the order of their starts, and what can be done to them."""

    engine: PolicyEngine
    servers: list[WeightedServer]
    faults: Faults
    pace: Pace
    folder: Path

    async def samples(self) -> bool:
        """Whether its time of sampling goes on."""
        before = self.engine.sampling_seconds
        await asyncio.sleep(0.001)
        return self.engine.sampling_seconds > before

    def folder_of(self, number: float) -> Path:
        return weights(self.folder / f"published-{number}", number)

    async def in_flight(self, count: int) -> None:
        """Wait until so many requests are being served by the newest server."""
        while self.servers[-1].generating < count:  # noqa: ASYNC110 - another task changes it
            await asyncio.sleep(0.001)


@asynccontextmanager
async def policy(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    lora_rank: int | None = None,
    devices: Sequence[Sequence[str]] | None = None,
    direct: DirectTransport | None = None,
    prepare: Callable[[int], Awaitable[object]] | None = None,
) -> AsyncIterator[Policy]:
    """A policy that starts with the weights 1.0."""
    faults, pace = Faults(), Pace()
    servers: list[WeightedServer] = []

    def server(spec: ServerSpec, start: PolicyWeights) -> WeightedServer:
        whole = None if spec.slots else start.folder
        drafts = None if spec.drafts is None else True
        servers.append(WeightedServer(whole or spec.model, faults, pace, drafts=drafts))
        return servers[-1]

    monkeypatch.setattr(ServerSpec, "server", server)
    engine = PolicyEngine(
        Path("python"),
        weights(folder / "base", 1.0),
        folder,
        lora_rank=lora_rank,
        devices=devices,
        tolerance=Tolerance(mean=0.01, largest=0.01),
        direct=direct,
        prepare=prepare,
    )
    async with asyncio.timeout(LIMIT), engine:
        yield Policy(engine, servers, faults, pace, folder)
