"""Who the loop works with: the learner that has the weights, and the engine that samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from services.contracts.trajectories import Trajectory
from services.inference.token_engine.interface import TokenEngine
from services.trainer.rl.policy_server import LogprobReference, SyncReport
from services.trainer.rl.prompts import SampledPrompt


class Source(Protocol):
    """Answers prompts; safe to ask from many tasks at once."""

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """Answer a prompt, as its sample ``index``.

        A sample that failed says so in its record: nothing is raised but ``CancelledError``.
        """
        ...


class Learner(Protocol):
    """Holds and updates the policy; asked one thing at a time."""

    async def update(self, step: int, batch: Path) -> dict[str, float]:
        """Learn from a batch; return the metrics of the update."""
        ...

    async def measure(self, batch: Path) -> dict[str, float]:
        """The metrics that the batch has under the present weights; nothing is learned."""
        ...

    async def publish(self, folder: Path) -> None:
        """Write the weights for an engine."""
        ...

    async def probe(self, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of every token after the first, of each sequence."""
        ...

    async def save(self, folder: Path) -> None:
        """Write all that training goes on from."""
        ...

    async def export(self, folder: Path) -> None:
        """Write the trained model."""
        ...


class Engine(TokenEngine, Protocol):
    """Samples with the weights that were loaded last, whose number each token carries."""

    async def load(self, version: int, folder: Path, expect: LogprobReference) -> SyncReport:
        """Sample with published weights from now on; turns that are being sampled go on with
        them. Raises where the engine does not compute what the learner does."""
        ...

    async def sleep(self) -> None:
        """Give back the memory of its devices; nothing may be asked until it wakes."""
        ...

    async def wake(self) -> None:
        """Be ready to load and to sample again."""
        ...

    async def watch(self) -> None:
        """Raise once it has ended by itself and cannot be brought back; else never return."""
        ...
