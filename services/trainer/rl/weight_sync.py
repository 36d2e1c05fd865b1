"""Publish the learner's weights, load them into the engine, and verify the result."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from services.trainer.rl.groups import Group
from services.trainer.rl.interfaces import Engine, Learner
from services.trainer.rl.policy_server import LogprobReference, SyncReport

KEPT = 2
"""Published versions that are kept: the engine may have to reload the previous one."""
PROBES = 3
PROBE_TOKENS = 1024


class WeightSync:
    """Publishes weights below a folder and loads them into the engine."""

    def __init__(self, learner: Learner, folder: Path) -> None:
        self._learner = learner
        self._folder = folder
        self._published: dict[int, Path] = {}

    async def publish(self, version: int) -> Path:
        """The folder with the learner's current weights, as ``version``."""
        if version not in self._published:
            target = self._folder / f"version-{version}"
            shutil.rmtree(target, ignore_errors=True)  # left by a killed attempt
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._learner.publish(target)
            self._published[version] = target
        return self._published[version]

    async def load(
        self,
        engine: Engine,
        version: int,
        probes: Sequence[Sequence[int]],
        previous: Sequence[Sequence[float]] | None = None,
    ) -> SyncReport:
        """Load the learner's current weights into an engine, as ``version``.

        The engine must reproduce the learner's log-probabilities on ``probes``, and change as
        they did since ``previous``, those before the update. Raises what learner and engine raise.
        """
        target = await self.publish(version)
        reference = LogprobReference(probes, await self._learner.probe(probes), previous)
        report = await engine.load(version, target, reference)
        self._forget(version)
        return report

    def _forget(self, version: int) -> None:
        for folder in self._folder.glob("version-*"):
            number = int(folder.name.removeprefix("version-"))
            if not version - KEPT < number <= version:
                self._published.pop(number, None)
                shutil.rmtree(folder, ignore_errors=True)


def probes_of(groups: Sequence[Group]) -> list[list[int]]:
    """Probe sequences from a batch: the longest sample of each of its first groups."""
    samples = [max(g.usable, key=lambda s: len(s.response_token_ids)) for g in groups[:PROBES]]
    return [(s.prompt_token_ids + s.response_token_ids)[:PROBE_TOKENS] for s in samples]
