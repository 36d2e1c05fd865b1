"""How the policy does on prompts that it is not trained on."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.trajectories import Trajectory
from services.core.process.reporter import Reporter
from services.trainer.rl.batch import Batches
from services.trainer.rl.groups import Group
from services.trainer.rl.interfaces import Learner, Source
from services.trainer.rl.metrics import sample_figures
from services.trainer.rl.prompts import Draw

PREFIX = "eval_"
BATCH = "evaluation.npz"
TELL_SECONDS = 30.0
"""An evaluation that takes longer says how far it has come."""


@dataclass(frozen=True)
class Divergence:
    """Lets the learner tell how far the policy is from its teacher, where nothing is rewarded."""

    batches: Batches
    learner: Learner
    job_dir: Path

    async def of(self, groups: Sequence[Group]) -> dict[str, float]:
        """The loss on samples, as a step of training has it; nothing where none can be used."""
        batch = await self.batches.of(groups)
        if not batch.sequences:
            return {}
        path = self.job_dir / BATCH
        await asyncio.to_thread(batch.save, path)
        figures = await self.learner.measure(path)
        path.unlink()
        return figures


@dataclass(frozen=True)
class Evaluation:
    """Answers each of ``draws`` ``samples`` times, with the same seeds each time, so that two
    evaluations differ by the policy alone.

    ``full_marks`` is the reward that passes; ``divergence`` stands in where there are no rewards.
    """

    draws: Sequence[Draw]
    source: Source
    samples: int
    max_concurrency: int
    full_marks: float | None
    reporter: Reporter
    divergence: Divergence | None = None

    async def figures(self) -> dict[str, float]:
        """Evaluate the policy that the engine and the learner have; may take long."""
        self.reporter.phase("evaluating")
        groups = await self._play()
        played = [sample for group in groups for sample in group.samples.values()]
        figures = sample_figures(played, self.full_marks)
        if self.divergence is not None:
            figures |= await self.divergence.of(groups)
        self._tell_failure(groups)
        self.reporter.phase("training")
        return {PREFIX + name: value for name, value in figures.items()}

    async def _play(self) -> list[Group]:
        places = asyncio.Semaphore(self.max_concurrency)
        clock = asyncio.get_running_loop()
        done, told = 0, clock.time()

        async def sample(draw: Draw, index: int) -> Trajectory:
            nonlocal done, told
            async with places:
                trajectory = await self.source.sample(draw, index)
            done += 1
            if clock.time() - told >= TELL_SECONDS:
                told = clock.time()
                everything = len(self.draws) * self.samples
                self.reporter.message(f"Evaluated {done:,} of {everything:,} samples")
            return trajectory

        groups = []
        async with asyncio.TaskGroup() as tasks:
            played = [
                [tasks.create_task(sample(draw, index)) for index in range(self.samples)]
                for draw in self.draws
            ]
        for draw, samples in zip(self.draws, played, strict=True):
            group = Group(draw.number, draw.prompt, self.samples, 0, self.full_marks is not None)
            group.samples.update(enumerate(task.result() for task in samples))
            groups.append(group)
        return groups

    def _tell_failure(self, groups: Sequence[Group]) -> None:
        """Say it where an evaluation found nothing out: its figures would be missing silently."""
        if any(group.usable for group in groups):
            return
        reason = next(filter(None, (group.failure for group in groups)), "no samples")
        text = f"no prompt of the validation file could be evaluated; the first: {reason}"
        self.reporter.message(text, "warn")
