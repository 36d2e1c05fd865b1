"""Weight sync: publish the learner's weights, load them into the engine, and verify the result.

An engine can accept new weights and keep old ones in part, e.g. with tied embeddings or a cache
that outlives the weights that filled it. No request fails then; only the training does. Hence the
engine's log-probabilities of some probes are compared with the learner's.
"""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from services.contracts.errors import TemperError
from services.inference.token_engine import VllmTokenEngine
from services.inference.token_engine.base import TokenEngine, TurnSampling
from services.trainer.rl.direct import DirectTransport

KEPT = 2
"""Published versions that are kept: the one that a restarted engine loads, and the one before, over
which the next is written."""
PROBES = 3
PROBE_TOKENS = 1024
GENERATED = 8
"""Tokens generated after the probe that is continued."""
CACHED = 128
"""Tokens of the largest block of a prefix cache: those of an engine without a GPU."""
RENEWAL = 8
"""Syncs that compare the same probes. Then neither side scores them under the weights before an
update: it did so after the last."""
DECISIVE = 8.0
"""Standard errors between a current and a stale engine; a 4-sigma error is 1 in 30,000."""

Differences = NDArray[np.float64]


class EngineOutOfSync(TemperError):
    """The engine's log-probabilities differ from the learner's even after a restart."""

    code = "engine_out_of_sync"


@dataclass(frozen=True)
class LogprobReference:
    """The learner's log-probabilities of probes: ``log_probs[i][j]`` is that of token j + 1 of
    probe i, at temperature 1, in nats; ``previous`` are those before the update, None at the start.

    The prefix cache is tested only by full blocks (16 tokens on a GPU, 128 on a CPU), so a probe
    should have hundreds of tokens.
    """

    token_ids: Sequence[Sequence[int]]
    log_probs: Sequence[Sequence[float]]
    previous: Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        lengths = [len(probe) for probe in self.token_ids]
        if lengths != [len(each) + 1 for each in self.log_probs] or min(lengths, default=0) < 2:
            raise ValueError("each probe needs two tokens, and a log-probability for all but one")

    def cut(self, length: int) -> "LogprobReference":
        """The reference cut to at most ``length`` tokens of each probe."""
        return LogprobReference(
            [probe[:length] for probe in self.token_ids],
            [expected[: length - 1] for expected in self.log_probs],
            self.previous and [expected[: length - 1] for expected in self.previous],
        )


@dataclass(frozen=True)
class Tolerance:
    """Allowed log-probability differences between two implementations with the same weights."""

    mean: float
    largest: float

    @classmethod
    def of(cls, *, float32: bool) -> Self:
        """The rounding differences of float32 or bfloat16."""
        return cls(mean=1e-3, largest=2e-2) if float32 else cls(mean=0.1, largest=5.0)


@dataclass(frozen=True)
class Difference:
    """Absolute log-probability difference between engine and learner, in nats."""

    mean: float
    largest: float
    stale: bool = False

    def __str__(self) -> str:
        if self.stale:
            return "log-probabilities did not follow the update"
        return f"log-probabilities differ by {self.mean:.2g} on average, {self.largest:.2g} at most"

    def within(self, tolerance: Tolerance) -> bool:
        """Whether rounding explains it; NaN never does."""
        return not self.stale and self.mean <= tolerance.mean and self.largest <= tolerance.largest


@dataclass(frozen=True)
class SyncReport:
    """How a weight sync went.

    Nothing was sampled for ``paused_seconds`` of ``seconds``. ``largest_difference`` is
    the largest absolute difference of log-probabilities (nats) between engine and learner.
    ``restarted`` is the reason if a server had to be restarted, else None.
    """

    version: int
    seconds: float
    paused_seconds: float
    largest_difference: float
    restarted: str | None


@dataclass(frozen=True)
class WeightChanges:
    """What a version changes: the tensors of these names; all others are, bit by bit, those of the
    version ``base``."""

    base: int
    names: Sequence[str]


class PolicyLearner(Protocol):
    """Holds and updates the policy; one request at a time."""

    @property
    def busy_seconds(self) -> float:
        """Seconds that its requests took so far."""
        ...

    async def update(self, step: int, batch: Path) -> dict[str, float]:
        """Train on a batch; return the metrics of the update."""
        ...

    async def measure(self, batch: Path) -> dict[str, float]:
        """The metrics of a batch under the current weights, without an update."""
        ...

    async def publish(self, folder: Path, outdated: Path | None = None) -> Sequence[str] | None:
        """Write the weights for an engine into a new folder, over the files of ``outdated``, which
        is gone then. Returns the names of the tensors that differ from those published before, None
        if they were not compared."""
        ...

    async def probe(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of every token after the first, of each sequence."""
        ...

    async def save(self, folder: Path) -> None:
        """Write everything that resuming needs."""
        ...

    async def export(self, folder: Path) -> None:
        """Write the trained model."""
        ...


class SyncedEngine(TokenEngine, Protocol):
    """Samples with the most recently loaded weights; every token carries their version."""

    @property
    def sampling_seconds(self) -> float:
        """Seconds so far in which it sampled for a rollout: it was neither paused nor without
        requests."""
        ...

    async def load(
        self,
        version: int,
        folder: Path,
        expect: LogprobReference,
        changes: WeightChanges | None = None,
    ) -> SyncReport:
        """Sample with published weights from now on; turns in progress continue with them. Only
        the ``changes`` have to be loaded over their base. Raises if the engine does not compute
        what the learner computes."""
        ...

    async def sleep(self) -> None:
        """Release the memory of its devices; no requests until it wakes."""
        ...

    async def wake(self) -> None:
        """Resume loading and sampling."""
        ...

    async def watch(self) -> None:
        """Never return; raise once the engine has died and cannot be restarted."""
        ...


class WeightSync:
    """Publishes weights below a folder and loads them into the engine.

    With a ``direct`` transport that works the engine gets them first; the folder is for an engine
    that has to be restarted.
    """

    def __init__(
        self, learner: PolicyLearner, folder: Path, direct: DirectTransport | None = None
    ) -> None:
        self._learner = learner
        self._folder = folder
        self.direct = direct
        self._turn = asyncio.Lock() if direct is None else direct.turn
        self._published: dict[int, Path] = {}
        self._changes: dict[int, WeightChanges] = {}
        self._probes: Sequence[Sequence[int]] = ()
        self._scored: Sequence[Sequence[float]] | None = None
        self._syncs_left = 0

    async def publish(self, version: int) -> Path:
        """The folder with the learner's current weights, as ``version``."""
        async with self._turn:
            if version not in self._published:
                await self._publish(version)
        return self._published[version]

    async def _publish(self, version: int) -> None:
        target = self._folder_of(version)
        shutil.rmtree(target, ignore_errors=True)  # left by a killed attempt
        self._folder.mkdir(parents=True, exist_ok=True)
        known = sorted(self._published)
        outdated = self._published.pop(known[0]) if len(known) >= KEPT else None
        names = await self._learner.publish(target, outdated)
        if names is not None and known:
            self._changes = {version: WeightChanges(known[-1], names)}
        self._published[version] = target

    def _folder_of(self, version: int) -> Path:
        return self._folder / f"version-{version}"

    async def begin(
        self, engine: SyncedEngine, version: int, probes: Sequence[Sequence[int]]
    ) -> SyncReport:
        """Load the learner's initial weights into an engine; see `load`."""
        self._probes, self._scored, self._syncs_left = probes, None, 0
        return await self.load(engine, version)

    async def before_update(self, probes: Sequence[Sequence[int]]) -> None:
        """Score what the next `load` compares, under the weights before an update: the probes of
        the last sync, and at times the new ``probes``. Raises what the learner raises."""
        if not self._syncs_left:
            self._probes, self._syncs_left = probes, RENEWAL
            self._scored = await self._learner.probe(probes)
        self._syncs_left -= 1

    async def load(self, engine: SyncedEngine, version: int) -> SyncReport:
        """Load the learner's current weights into an engine, as ``version``.

        The engine must reproduce the learner's log-probabilities on the probes, and change as
        they did since `before_update`. Raises what learner and engine raise.
        """
        if self.direct is None or not self.direct.works:
            await self.publish(version)
        scored = await self._learner.probe(self._probes)
        report = await engine.load(
            version,
            self._folder_of(version),
            LogprobReference(self._probes, scored, self._scored),
            self._changes.get(version),
        )
        await self.publish(version)
        self._scored = scored
        self._delete_outdated(version)
        return report

    def _delete_outdated(self, version: int) -> None:
        for folder in self._folder.glob("version-*"):
            number = int(folder.name.removeprefix("version-"))
            if not version - KEPT < number <= version:
                self._published.pop(number, None)
                shutil.rmtree(folder, ignore_errors=True)


async def prefill(engine: VllmTokenEngine, model: str, reference: LogprobReference) -> None:
    """Fill the prefix cache with what is continued, as trajectories in flight do."""
    await _generate(engine, model, _continued(reference), tokens=1)


def _continued(reference: LogprobReference) -> Sequence[int]:
    """The shortest probe that fills a block of the prefix cache, else the longest: a cache that
    outlived its weights shows in one as in all."""
    filling = [each for each in reference.token_ids if len(each) > CACHED]
    return min(filling, key=len) if filling else max(reference.token_ids, key=len)


async def rescore(engine: VllmTokenEngine, model: str, reference: LogprobReference) -> Differences:
    """The engine's log-probabilities of all probe tokens (m,)."""
    answers = await asyncio.gather(
        *[engine.prompt_log_probs(probe, model=model) for probe in reference.token_ids]
    )
    return np.concatenate([answer.tokens for answer in answers])


async def compare(
    engine: VllmTokenEngine,
    model: str,
    reference: LogprobReference,
    before: Differences | None = None,
) -> tuple[Difference, Differences]:
    """Compare the engine's log-probabilities of the probes with the learner's, and those of tokens
    that it generates after one with its own rescoring of them. With ``before``, its `rescore` under
    the previous weights, also check that it followed the update. Returns its `rescore` too, under
    the weights that it has. Raises `EngineFailed`."""
    continued = _continued(reference)

    async def scored(probe: Sequence[int]) -> tuple[Differences, Differences]:
        if probe is continued:
            return await _continue(engine, model, probe)
        answer = await engine.prompt_log_probs(probe, model=model)
        return answer.tokens.astype(np.float64), np.empty(0)

    parts = await asyncio.gather(*[scored(probe) for probe in reference.token_ids])
    found, generated = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    learned: Differences = np.concatenate(reference.log_probs)
    signed = found - learned
    kinds = [np.abs(signed), generated]
    stale = False
    if before is not None and reference.previous is not None:
        then = np.concatenate(reference.previous)
        stale = missed_update(found - before, learned - then)
    difference = Difference(
        mean=max(float(kind.mean()) for kind in kinds),  # the few generated tokens count as much
        largest=max(float(kind.max()) for kind in kinds),
        stale=stale,
    )
    return difference, found


def missed_update(engine_change: Differences, learner_change: Differences) -> bool:
    """Whether the engine kept the weights from before an update.

    In bfloat16 one update is smaller than the rounding differences between two implementations,
    but a current engine changes as the learner does on all probe tokens together: projected on the
    learner's change, its own has length 1, a stale one's length 0. The verdict is stale only if the
    two cases are `DECISIVE` standard errors apart; both changes (m,), in nats.
    """
    fresh = float(np.sqrt(np.mean((engine_change - learner_change) ** 2)))
    kept = float(np.sqrt(np.mean(engine_change**2)))
    return kept < fresh and float(np.linalg.norm(learner_change)) > DECISIVE * kept


async def _continue(
    engine: VllmTokenEngine, model: str, probe: Sequence[int]
) -> tuple[Differences, Differences]:
    """The log-probabilities of a probe, and the absolute differences (generation vs. rescoring) of
    generated tokens: generation reads the prefix cache, rescoring recomputes everything."""
    generated, log_probs = await _generate(engine, model, probe, tokens=GENERATED)
    again = await engine.prompt_log_probs([*probe, *generated], model=model)
    scored, rescored = np.split(again.tokens.astype(np.float64), [len(probe) - 1])
    return scored, np.abs(rescored - np.asarray(log_probs))


async def _generate(
    engine: VllmTokenEngine, model: str, probe: Sequence[int], *, tokens: int
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    sampled = await engine.generate_as(model, 0, probe, TurnSampling(max_tokens=tokens))
    return sampled.token_ids, sampled.log_probs
