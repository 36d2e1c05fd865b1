"""From groups of samples to the batch that the learner reads."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.contracts.online import OverlongPenalty
from services.contracts.trajectories import FinishReason, Trajectory
from services.trainer.rl.groups import Group
from services.trainer.rl.sequences import Batch, TopK, TrainingSequence

TRUNCATED = frozenset({FinishReason.LENGTH, FinishReason.REPLY_TOO_LONG})
"""Finish reasons of truncated responses: the model had not finished."""


MAX_TEACHER_REQUESTS = 32
"""Concurrent: each answer holds the top-k of a whole sequence in memory."""


class TopKTeacher(Protocol):
    """A remote teacher that returns its most probable tokens."""

    async def top(self, token_ids: Sequence[int]) -> TopK:
        """The most probable tokens at every position but the first."""
        ...


@dataclass(frozen=True)
class BatchBuilder:
    """Builds batches.

    ``max_length`` is the response budget in tokens, which ``overlong`` refers to; ``teacher`` is a
    remote teacher, whose top-k distribution travels with each sequence.
    """

    max_length: int
    overlong: OverlongPenalty | None = None
    teacher: TopKTeacher | None = None

    async def of(self, groups: Sequence[Group]) -> Batch:
        """A batch of all usable samples of the groups; raises what the teacher raises."""
        samples = [(group, sample) for group in groups for sample in group.usable]
        taught = await self._taught([sample for _, sample in samples])
        return Batch(
            tuple(
                self._sequence(sample, group.number, teacher)
                for (group, sample), teacher in zip(samples, taught, strict=True)
            )
        )

    def penalty(self, sample: Trajectory) -> float:
        """The overlong penalty of a sample, 0 or negative."""
        if self.overlong is None:
            return 0.0
        length = len(sample.response_token_ids)
        buffer, factor = self.overlong.buffer, self.overlong.factor
        return overlong_penalty(length, self.max_length, buffer, factor)

    async def _taught(self, samples: Sequence[Trajectory]) -> Sequence[TopK | None]:
        if self.teacher is None:
            return [None] * len(samples)
        teacher, permits = self.teacher, asyncio.Semaphore(MAX_TEACHER_REQUESTS)

        async def ask(sample: Trajectory) -> TopK:
            async with permits:
                return await teacher.top(sample.prompt_token_ids + sample.response_token_ids)

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask(sample)) for sample in samples]
        return [task.result() for task in asked]

    def _sequence(self, sample: Trajectory, group: int, teacher: TopK | None) -> TrainingSequence:
        prompt = len(sample.prompt_token_ids)
        return TrainingSequence(
            token_ids=np.array(sample.prompt_token_ids + sample.response_token_ids, np.int32),
            mask=np.array([0] * prompt + sample.response_mask, np.bool_),
            sampler_log_probs=np.array([0.0] * prompt + sample.log_probs, np.float32),
            policy_versions=np.array([-1] * prompt + sample.policy_versions, np.int32),
            reward=(sample.reward or 0.0) + self.penalty(sample),
            group=group,
            teacher=teacher,
        )


def overlong_penalty(length: int, max_length: int, buffer: int, factor: float = 1.0) -> float:
    """Soft overlong penalty (DAPO, Yu et al. 2025, arXiv:2503.14476, eq. 13).

    Added to the reward of a response of ``length`` tokens: 0 up to ``max_length - buffer``, then
    linear down to ``-factor`` at ``max_length``.
    """
    excess = length - (max_length - buffer)
    return -factor * min(max(excess / buffer, 0.0), 1.0)
