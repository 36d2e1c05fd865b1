"""Detecting an engine that missed an update, in spite of rounding differences."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from services.trainer.rl.weight_sync import (
    RENEWAL,
    LogprobReference,
    SyncReport,
    WeightChanges,
    WeightSync,
    missed_update,
)
from tests.support.rl.parts import CountingLearner, SteadyEngine
from tests.support.rl.virtual import run

TOKENS = 3000


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rounding", [0.0, 0.02])
def test_stale_engine_is_distinguished_from_a_current_one(seed: int, rounding: float) -> None:
    generator = np.random.default_rng(seed)
    update = generator.normal(0.0, 0.005, TOKENS)
    noise = generator.normal(0.0, rounding, TOKENS)
    assert missed_update(noise, update)
    assert not missed_update(update + noise, update)


@pytest.mark.parametrize("seed", range(20))
def test_update_too_small_to_see_is_not_called_missed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    update = generator.normal(0.0, 0.0005, TOKENS)
    noise = generator.normal(0.0, 0.02, TOKENS)
    assert not missed_update(noise, update)
    assert not missed_update(update + noise, update)
    assert not missed_update(np.zeros(TOKENS), np.zeros(TOKENS))


class ScoringLearner(CountingLearner):
    """Remembers what it scored."""

    def __init__(self) -> None:
        super().__init__()
        self.scored: list[list[list[int]]] = []

    async def probe(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        self.scored.append([list(ids) for ids in token_ids])
        return await super().probe(token_ids)


class ComparedEngine(SteadyEngine):
    """Remembers what it was compared on."""

    def __init__(self) -> None:
        super().__init__(lambda _: "")
        self.references: list[LogprobReference] = []

    async def load(
        self,
        version: int,
        folder: Path,
        expect: LogprobReference,
        changes: WeightChanges | None = None,
    ) -> SyncReport:
        self.references.append(expect)
        return await super().load(version, folder, expect, changes)


def test_probes_are_scored_once_a_sync_and_renewed_at_times(tmp_path: Path) -> None:
    learner, engine = ScoringLearner(), ComparedEngine()

    async def train() -> None:
        sync = WeightSync(learner, tmp_path / "weights")
        await sync.begin(engine, 0, [[1, 2, 3]])
        for update in range(1, RENEWAL + 2):
            await sync.before_update([[update, 7, 7]])
            learner.updates += 1
            await sync.load(engine, update)

    run(train())

    probes = [reference.token_ids for reference in engine.references]
    assert probes == [[[1, 2, 3]], *[[[1, 7, 7]]] * RENEWAL, [[RENEWAL + 1, 7, 7]]]
    assert len(learner.scored) == len(probes) + 2, "scored twice where they are new, else once"
    assert engine.references[0].previous is None
    for update, reference in enumerate(engine.references[1:], start=1):
        assert reference.previous == [[-(update - 1.0)] * 2]
        assert reference.log_probs == [[-float(update)] * 2]


class LoggedLearner(CountingLearner):
    """Logs what it publishes."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    async def publish(self, folder: Path, outdated: Path | None = None) -> Sequence[str] | None:
        self.log.append(f"{folder.name} over {outdated and outdated.name}")
        await super().publish(folder, outdated)
        return [str(self.updates)]


class LoggedEngine(SteadyEngine):
    """Logs what it loads, wherever from."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(lambda _: "")
        self.log = log

    async def load(
        self,
        version: int,
        folder: Path,
        expect: LogprobReference,
        changes: WeightChanges | None = None,
    ) -> SyncReport:
        self.log.append(f"load {version}, {changes and (changes.base, *changes.names)}")
        return SyncReport(version, 0.0, 0.0, 0.0, None)


@pytest.mark.parametrize("sends", [False, True])
def test_weights_that_are_sent_are_published_behind_the_engine(sends: bool, tmp_path: Path) -> None:
    log: list[str] = []
    learner, engine = LoggedLearner(log), LoggedEngine(log)

    async def train() -> None:
        direct: Any = SimpleNamespace(works=sends, turn=asyncio.Lock())
        sync = WeightSync(learner, tmp_path / "weights", direct)
        await sync.publish(0)
        await sync.begin(engine, 0, [[1, 2]])
        for update in (1, 2):
            learner.updates += 1
            await sync.load(engine, update)

    run(train())

    published = [f"version-{n} over {None if n < 2 else 'version-0'}" for n in range(3)]
    if sends:
        loaded = [f"load {n}, None" for n in range(3)]
        assert log == [published[0], loaded[0], loaded[1], published[1], loaded[2], published[2]]
    else:
        loaded = ["load 0, None", "load 1, (0, '1')", "load 2, (1, '2')"]
        assert log == [published[0], loaded[0], published[1], loaded[1], published[2], loaded[2]]
    assert {each.name for each in (tmp_path / "weights").iterdir()} == {"version-1", "version-2"}
