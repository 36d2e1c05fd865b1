"""Interfaces between the loop, the sources of samples, the learner and the engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from services.contracts.trajectories import Trajectory
from services.inference.token_engine.interface import TokenEngine
from services.trainer.rl.policy_server import LogprobReference, SyncReport
from services.trainer.rl.prompts import SampledPrompt


class Source(Protocol):
    """Answers prompts; safe for concurrent use."""

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """Answer a prompt, as its sample ``index``.

        A failure is recorded in the trajectory; nothing but ``CancelledError`` is raised.
        """
        ...


class Learner(Protocol):
    """Holds and updates the policy; one request at a time."""

    async def update(self, step: int, batch: Path) -> dict[str, float]:
        """Train on a batch; return the metrics of the update."""
        ...

    async def measure(self, batch: Path) -> dict[str, float]:
        """The metrics of a batch under the current weights, without an update."""
        ...

    async def publish(self, folder: Path) -> None:
        """Write the weights for an engine."""
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


class Engine(TokenEngine, Protocol):
    """Samples with the most recently loaded weights; every token carries their version."""

    async def load(self, version: int, folder: Path, expect: LogprobReference) -> SyncReport:
        """Sample with published weights from now on; turns in progress continue with them. Raises
        if the engine does not compute what the learner computes."""
        ...

    async def sleep(self) -> None:
        """Release the memory of its devices; no requests until it wakes."""
        ...

    async def wake(self) -> None:
        """Be ready to load and to sample again."""
        ...

    async def watch(self) -> None:
        """Never return; raise once the engine has died and cannot be restarted."""
        ...
