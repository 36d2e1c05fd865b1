"""Plays the rollouts of a job, a bounded number at a time, and keeps each as it ends."""

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.rollouts.trajectories import Trajectory
from services.evaluator.failures import first_error
from services.evaluator.rollout.totals import RolloutTotals
from services.rewards.scorer import Scorer
from services.rollouts.log.log import IndexedLog
from services.rollouts.open_rollouts import RolloutPlayer
from services.rollouts.outages import OutageWatch, ToolMonitor
from services.rollouts.prompts import Prompt


@dataclass(frozen=True, slots=True)
class PlannedRollout:
    """One rollout to run."""

    prompt: Prompt
    index: int

    @property
    def trajectory_id(self) -> str:
        """The id that its trajectory has in every attempt."""
        return f"traj-{self.prompt.index}-{self.index}"


@dataclass(frozen=True)
class RolloutRunner:
    """Turns planned rollouts into scored trajectories on disk, and keeps their totals."""

    rollouts: RolloutPlayer
    scorer: Scorer
    log: IndexedLog
    totals: RolloutTotals
    tools: ToolMonitor
    outages: OutageWatch
    seed: int | None

    async def run(
        self,
        samples: Iterator[PlannedRollout],
        concurrency: int,
        *background: Coroutine[Any, Any, None],
    ) -> None:
        """Play every sample, at most ``concurrency`` at a time, reading ``samples`` as they are
        needed. As many again may wait for rewards, so that a slow reward leaves no engine idle.

        ``background`` runs as long. The first error of anything ends everything.
        """
        try:
            async with asyncio.TaskGroup() as group:
                around = [group.create_task(task) for task in background]
                rewarding = _RewardQueue(group, concurrency)
                workers = [
                    group.create_task(self._play_all(samples, rewarding))
                    for _ in range(concurrency)
                ]
                await asyncio.wait(workers)
                await rewarding.done()
                for task in around:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors

    async def _play_all(self, samples: Iterator[PlannedRollout], rewarding: "_RewardQueue") -> None:
        # All of these tasks draw from the one iterator: it is the window.
        for sample in samples:
            window = self.outages.begin()
            trajectory = await self.rollouts.play(
                sample.prompt,
                sample_index=sample.index,
                seed=self.seed,
                trajectory_id=sample.trajectory_id,
            )
            await rewarding.begin(self._finish(trajectory, window))

    async def _finish(self, trajectory: Trajectory, window: int) -> None:
        rewarded = await self.scorer.score(trajectory)
        rewarded = self.log.keep(rewarded)
        self.totals.add(rewarded)
        self.tools.observe(rewarded)
        self.outages.observe(rewarded, window)
        if self.outages.outage is not None:
            raise self.outages.outage


class _RewardQueue:
    """Scoring tasks, at most ``most`` at a time."""

    def __init__(self, group: asyncio.TaskGroup, most: int) -> None:
        self._group = group
        self._slots = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, task: Coroutine[Any, Any, None]) -> None:
        """Start a task once there is a slot for it."""
        try:
            await self._slots.acquire()
            started = self._group.create_task(task)
        except BaseException:
            task.close()
            raise
        self._tasks.add(started)
        started.add_done_callback(self._end)

    async def done(self) -> None:
        """Wait for all that was started."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
