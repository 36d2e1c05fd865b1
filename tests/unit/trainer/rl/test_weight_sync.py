"""Detecting an engine that missed an update, in spite of rounding differences."""

from collections.abc import Sequence
from pathlib import Path

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
