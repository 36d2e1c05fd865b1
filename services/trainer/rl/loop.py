"""The training loop, the same for all methods.

    wait for the groups of a step -> build their batch -> update the policy -> sync its weights to
    the engine -> evaluate (at intervals) -> report -> write a checkpoint (at intervals)

The rollout scheduler runs beside it: with ``max_staleness`` 0 it pauses from the moment a batch is
taken until the engine has the new weights; otherwise it continues with the next prompts, and
rollouts in flight continue under the new weights.

A pause ends the wait for groups at once; a step that has its groups is finished first.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.training.online import OnlineSettings
from services.core.process.reporter import Reporter
from services.rollouts.activity import Activity
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from services.rollouts.outages import OutageWatch
from services.trainer.rl.batch import TokenValues, TrainingBatch
from services.trainer.rl.checkpoints import (
    Checkpoints,
    PendingGroup,
    PendingSample,
    Snapshot,
    TrainingPosition,
)
from services.trainer.rl.curriculum import CurriculumOrder
from services.trainer.rl.evaluation import PolicyEvaluation
from services.trainer.rl.groups import BatchBuilder, Group
from services.trainer.rl.metrics import IdleShares, StepClock, batch_metrics, rollout_metrics
from services.trainer.rl.prompts import PromptSampler
from services.trainer.rl.scheduler import RolloutScheduler
from services.trainer.rl.spec import PassThreshold
from services.trainer.rl.speculation import Speculation
from services.trainer.rl.weight_sync import (
    PROBE_TOKENS,
    PROBES,
    PolicyLearner,
    SyncedEngine,
    SyncReport,
    WeightSync,
)

MAX_SKIPPED = 3
"""Attempts at one step of which too much was lost, after which the job is paused."""


@dataclass(frozen=True)
class Training:
    """The parts of a training. ``first_probes`` are token sequences on which learner and engine are
    compared before anything was sampled; a sample passes at ``pass_threshold``. Setting ``pause``
    stops the training with a checkpoint, as ``outages`` does."""

    settings: OnlineSettings
    prompts: PromptSampler
    scheduler: RolloutScheduler
    batches: BatchBuilder
    learner: PolicyLearner
    engine: SyncedEngine
    sync: WeightSync
    log: IndexedLog
    updates: UpdateLog
    checkpoints: Checkpoints
    reporter: Reporter
    job_dir: Path
    first_probes: Sequence[Sequence[int]]
    activity: Activity
    pass_threshold: PassThreshold | None
    evaluation: PolicyEvaluation | None = None
    curriculum: CurriculumOrder | None = None
    speculation: Speculation | None = None
    sleeps: bool = False
    pause: asyncio.Event = field(default_factory=asyncio.Event)
    outages: OutageWatch | None = None

    async def run(self, position: TrainingPosition) -> TrainingPosition:
        """Train from a position to the last step, or until a pause; return the final position, of
        which a checkpoint exists."""
        if self.evaluation is not None and position.step == 0:
            self.reporter.metrics(0, **await self.evaluation.metrics())
        clock, skipped, idle = StepClock(), 0, IdleShares(self.engine, self.learner)
        while position.step < self.settings.steps:
            groups = await clock.wait_for_rollouts(self.activity, self._groups_unless_paused())
            if groups is None:
                if position.step:  # before the first step there is nothing to save
                    await self._checkpoint(position)
                return position
            if self.scheduler.lost_share > self.settings.infrastructure.skip_share:
                skipped += 1
                await self._skip_lost(position.step + 1, skipped)
                continue
            skipped = 0
            metrics: Mapping[str, float] = {}
            if groups:
                metrics = await self._learn(position, groups, clock)
            else:
                await self._skip(position.step + 1)
            if self.evaluation is not None and self._evaluation_due(position.step + 1):
                evaluated = await clock.time("evaluation", self.evaluation.metrics())
                metrics = {**metrics, **evaluated}
            metrics = {**metrics, **idle.take()}
            if self.speculation is not None:
                metrics = {**metrics, **await self.speculation.metrics()}
            position = self._after(position, bool(groups), metrics, clock)
            self._report(position, groups, metrics, clock)
            clock = StepClock()
            if self._checkpoint_due(position.step) or self.pause.is_set():
                await clock.time("checkpoint", self._checkpoint(position))
            if self.pause.is_set():
                return position
            if self.speculation is not None:
                left = self.settings.steps - position.step
                await clock.time("sync", self.speculation.after_step(left))
        return position

    async def _groups_unless_paused(self) -> list[Group] | None:
        """The groups of the next step; None when a pause is requested before they are finished."""
        batch = asyncio.create_task(self.scheduler.batch())
        pause = asyncio.create_task(self.pause.wait())
        try:
            await asyncio.wait({batch, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            if not batch.done():
                batch.cancel()
                with suppress(asyncio.CancelledError):
                    await batch
        return None if batch.cancelled() else batch.result()

    async def begin(self, version: int) -> None:
        """Sync the learner's initial weights to the engine."""
        self._report_restart(await self.sync.begin(self.engine, version, self.first_probes))

    def _report_restart(self, report: SyncReport) -> None:
        if report.restarted is not None:
            self.reporter.message(f"The engine was restarted: {report.restarted}", "warn")

    async def _learn(
        self, position: TrainingPosition, groups: Sequence[Group], clock: StepClock
    ) -> dict[str, float]:
        """Update the policy with groups, and the engine with the policy."""
        batch = await clock.time("batch", self.batches.of(groups))
        path = self.job_dir / f"batch-{position.step}.npz"
        await clock.time("batch", asyncio.to_thread(batch.save, path))
        if self.sleeps:
            await clock.time("sync", self.engine.sleep())
        await clock.time("probe", self.sync.before_update(probes_of(groups)))
        metrics = await clock.time("update", self.learner.update(position.step, path))
        path.unlink()
        values = TokenValues.take(path)
        logged = asyncio.to_thread(self._log_update, position.step + 1, groups, values, batch)
        await clock.time("update", logged)
        if self.sleeps:
            await clock.time("sync", self.engine.wake())
        report = await clock.time("sync", self.sync.load(self.engine, position.version + 1))
        self._report_restart(report)
        await self.scheduler.advance_version()
        return {
            **metrics,
            "sync_difference": report.largest_difference,
            "paused_seconds": report.paused_seconds,
        }

    def _log_update(
        self,
        step: int,
        groups: Sequence[Group],
        values: TokenValues | None,
        batch: TrainingBatch,
    ) -> None:
        """Log what the update computed for the tokens of each trajectory, without its branches;
        nothing of one that had no token to train on."""
        usable = [sample for group in groups for sample in group.usable]
        learned = sorted({each.sample for each in batch.sequences if each.mask.any()})
        samples = [usable[number] for number in learned]
        own = None
        if values is not None:
            split = values.split([int(each.mask.sum()) for each in batch.sequences])
            numbers = [each.sample for each in batch.sequences]
            own = [split[numbers.index(number)] for number in learned]
        self.updates.append(step, [sample.id for sample in samples], own)

    async def _skip_lost(self, step: int, skipped: int) -> None:
        """Repeat a step with new prompts, as too much of it was lost, for the ``skipped``-th time;
        it is an outage if that happens again and again."""
        limit = self.settings.infrastructure.skip_share
        text = (
            f"{self.scheduler.lost_share:.0%} of the rollouts were left out, more than skip_share "
            f"({limit:.0%}); the step is not trained on, but repeated with new prompts"
        )
        self.reporter.message(f"Step {step}: {text}", "warn", step=step)
        if self.outages is not None and skipped >= MAX_SKIPPED:
            self.outages.declare(f"{MAX_SKIPPED} attempts at step {step} lost too many rollouts")
        await self.scheduler.skip(again=True)

    async def _skip(self, step: int) -> None:
        text = "the rewards of every group were all equal; nothing was learned"
        self.reporter.message(f"Step {step}: {text}", "warn", step=step)
        await self.scheduler.skip()

    def _after(
        self,
        position: TrainingPosition,
        learned: bool,
        metrics: Mapping[str, float],
        clock: StepClock,
    ) -> TrainingPosition:
        tokens = int(metrics.get("trained_tokens", 0.0))
        return position.model_copy(
            update={
                "step": position.step + 1,
                "version": position.version + learned,
                "trained_tokens": position.trained_tokens + tokens,
                "train_seconds": position.train_seconds + clock.seconds,
            }
        )

    def _report(
        self,
        position: TrainingPosition,
        groups: Sequence[Group],
        metrics: Mapping[str, float],
        clock: StepClock,
    ) -> None:
        trained_on = position.version - bool(groups)
        values = {
            **rollout_metrics(self.scheduler.take_stats(), self.pass_threshold),
            **batch_metrics(groups, trained_on, self.batches, self.pass_threshold),
            **metrics,
            **clock.metrics(),
            "version": float(position.version),
            "prompts_drawn": float(self.prompts.position),
            "prompts_skipped": float(self.prompts.skipped),
            **(self.curriculum.metrics() if self.curriculum is not None else {}),
        }
        self.reporter.metrics(position.step, **values)
        left = (self.settings.steps - position.step) * position.train_seconds / position.step
        self.reporter.progress(position.step, self.settings.steps, left)

    def _evaluation_due(self, step: int) -> bool:
        return step % self.settings.eval_interval == 0 or step == self.settings.steps

    def _checkpoint_due(self, step: int) -> bool:
        return step % self.settings.checkpoint_steps == 0 or step == self.settings.steps

    async def _checkpoint(self, position: TrainingPosition) -> None:
        model = await self.checkpoints.write(
            position.step, self.learner.save, lambda: self._snapshot(position)
        )
        path = model.relative_to(self.job_dir).as_posix()
        self.reporter.checkpoint(position.step, path, self.checkpoints.steps())

    def _snapshot(self, position: TrainingPosition) -> Snapshot:
        self.log.sync()
        groups = self.scheduler.groups
        pending = [PendingGroup(number=each.number, started=each.started) for each in groups]
        curriculum = None
        if self.curriculum is not None:
            curriculum = self.curriculum.state([each.number for each in groups])
        return Snapshot(
            position.model_copy(
                update={
                    "prompts_drawn": self.prompts.position,
                    "prompts_skipped": self.prompts.skipped,
                    "trajectories": self.log.count,
                    "groups": tuple(pending),
                    "curriculum": curriculum,
                }
            ),
            [
                PendingSample(group=group.number, trajectory=sample)
                for group in groups
                for sample in group.samples.values()
            ],
        )


def probes_of(groups: Sequence[Group]) -> list[list[int]]:
    """Probe sequences from a batch: the longest sample of each of its first groups."""
    samples = [max(g.usable, key=lambda s: len(s.response_token_ids)) for g in groups[:PROBES]]
    return [(s.prompt_token_ids + s.response_token_ids)[:PROBE_TOKENS] for s in samples]
