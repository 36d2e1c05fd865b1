"""Brings the learner's weights to the engine, and shows it what they must compute."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from services.trainer.rl.groups import Group
from services.trainer.rl.interfaces import Engine, Learner
from services.trainer.rl.policy_server import LogprobReference, SyncReport

KEPT = 2
"""Published weights that stay: the engine may need those before again until it has the next."""
PROBES = 3
PROBE_TOKENS = 1024


class WeightSync:
    """Publishes weights below a folder and has the engine load them."""

    def __init__(self, learner: Learner, folder: Path) -> None:
        self._learner = learner
        self._folder = folder
        self._published: dict[int, Path] = {}

    async def publish(self, version: int) -> Path:
        """The folder with what the learner holds, as ``version``."""
        if version not in self._published:
            target = self._folder / f"version-{version}"
            shutil.rmtree(target, ignore_errors=True)  # of an attempt that was killed
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._learner.publish(target)
            self._published[version] = target
        return self._published[version]

    async def load(
        self, engine: Engine, version: int, probes: Sequence[Sequence[int]]
    ) -> SyncReport:
        """Let an engine sample with what the learner holds, as ``version``.

        Raises what learner and engine do: the engine must give the tokens of ``probes`` the
        log-probabilities that the learner gives them.
        """
        target = await self.publish(version)
        reference = LogprobReference(probes, await self._learner.probe(probes))
        report = await engine.load(version, target, reference)
        self._forget(version)
        return report

    def clear(self) -> None:
        """Remove all published weights."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget(self, version: int) -> None:
        for folder in self._folder.glob("version-*"):
            number = int(folder.name.removeprefix("version-"))
            if not version - KEPT < number <= version:
                self._published.pop(number, None)
                shutil.rmtree(folder, ignore_errors=True)


def probes_of(groups: Sequence[Group]) -> list[list[int]]:
    """Some sequences of a batch, the longest of its first groups."""
    samples = [max(g.usable, key=lambda s: len(s.response_token_ids)) for g in groups[:PROBES]]
    return [(s.prompt_token_ids + s.response_token_ids)[:PROBE_TOKENS] for s in samples]
