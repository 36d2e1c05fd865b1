"""A learner and an engine that a test controls step by step."""

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from services.inference.token_engine.base import SampledTokens, TurnSampling
from services.trainer.rl.batch import TokenValues, TrainingBatch
from services.trainer.rl.checkpoints import MODEL
from services.trainer.rl.policy_server.sampling_time import SamplingTime
from services.trainer.rl.weight_sync import LogprobReference, SyncReport, WeightChanges
from tests.support.rollouts import CharacterChat, tokens

WEIGHTS = "weights.json"


@dataclass
class CountingLearner:
    """Its weights are the number of its updates, and the values of each token are its id.
    ``batches`` are those it learned from."""

    updates: int = 0
    seconds: float = 0.0
    busy_seconds: float = 0.0
    batches: list[TrainingBatch] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: Path) -> "CountingLearner":
        return cls(updates=json.loads((checkpoint / MODEL / WEIGHTS).read_text()))

    async def update(self, step: int, batch: Path) -> dict[str, float]:
        await asyncio.sleep(self.seconds)
        self.busy_seconds += self.seconds
        loaded = TrainingBatch.load(batch)
        self.batches.append(loaded)
        self.steps.append(step)
        self.updates += 1
        trained = sum(int(sequence.mask.sum()) for sequence in loaded.sequences)
        ids = np.concatenate([each.token_ids[each.mask] for each in loaded.sequences])
        TokenValues(np.stack([ids] * 3, axis=1).astype(np.float32)).save(batch)
        return {"loss": 1.0, "trained_tokens": float(trained)}

    async def measure(self, batch: Path) -> dict[str, float]:
        loaded = TrainingBatch.load(batch)
        return {"loss": float(self.updates), "sequences": float(len(loaded.sequences))}

    async def publish(self, folder: Path, outdated: Path | None = None) -> Sequence[str] | None:
        if outdated is not None:
            shutil.rmtree(outdated)
        self._write(folder)
        return None

    async def probe(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-float(self.updates)] * (len(ids) - 1) for ids in token_ids]

    async def save(self, folder: Path) -> None:
        self._write(folder / MODEL)

    async def export(self, folder: Path) -> None:
        self._write(folder)

    def _write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / WEIGHTS).write_text(json.dumps(self.updates))


@dataclass
class SteadyEngine:
    """Writes what ``answer`` says to the text so far, a token each ``token_seconds``, under the
    version that is loaded in that moment. ``loaded`` are the versions in their order."""

    answer: Callable[[str], str]
    token_seconds: float = 1.0
    version: int = 0
    loaded: list[int] = field(default_factory=list)
    running: int = 0
    running_while_loading: list[int] = field(default_factory=list)
    asleep: bool = False
    sampling: SamplingTime = field(default_factory=SamplingTime)

    def __post_init__(self) -> None:
        self._requests = self.sampling.add_server()

    @property
    def sampling_seconds(self) -> float:
        return self.sampling.seconds

    async def generate(self, token_ids: Sequence[int], sampling: TurnSampling) -> SampledTokens:
        assert not self.asleep
        sampled = tokens(self.answer(CharacterChat().text(token_ids)))[: sampling.max_tokens]
        versions = []
        self.running += 1
        with self._requests.request():
            for _ in sampled:
                await asyncio.sleep(self.token_seconds)
                versions.append(self.version)
        self.running -= 1
        whole = bool(sampled) and sampled[-1] in sampling.stop_token_ids
        return SampledTokens(
            token_ids=tuple(sampled),
            log_probs=(-0.5,) * len(sampled),
            policy_versions=tuple(versions),
            finish_reason="stop" if whole else "length",
        )

    async def load(
        self,
        version: int,
        folder: Path,
        expect: LogprobReference,
        changes: WeightChanges | None = None,
    ) -> SyncReport:
        self.running_while_loading.append(self.running)
        published = json.loads((folder / WEIGHTS).read_text())
        assert expect.token_ids
        assert all(each == -float(published) for row in expect.log_probs for each in row)
        self.version = version
        self.loaded.append(version)
        return SyncReport(version, 0.0, 0.0, 0.0, None)

    async def sleep(self) -> None:
        self.asleep = True

    async def wake(self) -> None:
        self.asleep = False

    async def watch(self) -> None:
        await asyncio.Event().wait()
