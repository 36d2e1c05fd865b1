"""Evaluation of the policy on held-out prompts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.rollouts.trajectories import Trajectory
from services.core.process.reporter import Reporter
from services.trainer.rl.groups import BatchBuilder, Group, TrajectorySource
from services.trainer.rl.metrics import loss_metrics, sample_metrics
from services.trainer.rl.prompts import SampledPrompt
from services.trainer.rl.spec import PassThreshold
from services.trainer.rl.weight_sync import PolicyLearner

PREFIX = "eval_"
BATCH = "evaluation.npz"
REPORT_SECONDS = 30.0
"""Progress is reported at this interval."""


@dataclass(frozen=True)
class DivergenceEvaluation:
    """Measures the divergence from the teacher on evaluation samples (distillation has no
    rewards)."""

    batches: BatchBuilder
    learner: PolicyLearner
    job_dir: Path

    async def of(self, groups: Sequence[Group]) -> dict[str, float]:
        """The training loss on the samples, without an update; empty if no sample is usable."""
        batch = await self.batches.of(groups)
        if not batch.sequences:
            return {}
        path = self.job_dir / BATCH
        await asyncio.to_thread(batch.save, path)
        metrics = await self.learner.measure(path)
        path.unlink()
        return metrics


@dataclass(frozen=True)
class PolicyEvaluation:
    """Samples every prompt ``samples`` times, with the same seeds each time, so that two
    evaluations differ by the policy alone.

    A sample passes at ``pass_threshold``; without rewards ``divergence`` is measured instead.
    """

    prompts: Sequence[SampledPrompt]
    source: TrajectorySource
    samples: int
    max_concurrency: int
    pass_threshold: PassThreshold | None
    reporter: Reporter
    divergence: DivergenceEvaluation | None = None

    async def metrics(self) -> dict[str, float]:
        """Evaluate the current policy; the names start with ``eval_``. May take long."""
        self.reporter.phase("evaluating")
        groups = await self._sample_all()
        rollouts = [sample for group in groups for sample in group.samples.values()]
        metrics = sample_metrics(rollouts, self.pass_threshold) | loss_metrics(rollouts)
        if self.divergence is not None:
            metrics |= await self.divergence.of(groups)
        self._warn_if_empty(groups)
        self.reporter.phase("training")
        return {PREFIX + name: value for name, value in metrics.items()}

    async def _sample_all(self) -> list[Group]:
        places = asyncio.Semaphore(self.max_concurrency)
        clock = asyncio.get_running_loop()
        done, reported_at = 0, clock.time()

        async def sample(draw: SampledPrompt, index: int) -> Trajectory:
            nonlocal done, reported_at
            async with places:
                trajectory = await self.source.sample(draw, index)
            done += 1
            if clock.time() - reported_at >= REPORT_SECONDS:
                reported_at = clock.time()
                everything = len(self.prompts) * self.samples
                self.reporter.message(f"Evaluated {done:,} of {everything:,} samples")
            return trajectory

        groups = []
        async with asyncio.TaskGroup() as tasks:
            rollouts = [
                [tasks.create_task(sample(draw, index)) for index in range(self.samples)]
                for draw in self.prompts
            ]
        for draw, samples in zip(self.prompts, rollouts, strict=True):
            group = Group(
                draw.number, draw.prompt, self.samples, 0, self.pass_threshold is not None
            )
            group.samples.update(enumerate(task.result() for task in samples))
            groups.append(group)
        return groups

    def _warn_if_empty(self, groups: Sequence[Group]) -> None:
        """Warn if no prompt could be evaluated; otherwise the metrics would be missing silently."""
        if any(group.usable for group in groups):
            return
        reason = next(filter(None, (group.failure for group in groups)), "no samples")
        text = f"no prompt of the validation file could be evaluated; the first: {reason}"
        self.reporter.message(text, "warn")
