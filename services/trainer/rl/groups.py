"""Groups: the samples of one prompt, which GRPO compares with each other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from services.contracts.rollouts.agent_sessions import AgentSequence, SequenceRole
from services.contracts.rollouts.sources import source_of
from services.contracts.rollouts.trajectories import TRUNCATED, Trajectory
from services.contracts.training.online import (
    DistillationMethod,
    OverlongPenalty,
    PpoMethod,
    ReinforcementMethod,
)
from services.rollouts.prompts import Prompt
from services.trainer.rl.batch import TopK, TrainingBatch, TrainingSequence
from services.trainer.rl.checkpoints import TrainingCheckpoint
from services.trainer.rl.prompts import PromptSampler, SampledPrompt
from services.trainer.rl.spec import Online, PassThreshold


@dataclass(frozen=True)
class GroupConfig:
    """The shape of a group: ``samples`` per prompt, of which at least ``usable`` must be trainable.

    ``rewarded``: a sample is usable only with a reward. ``filtered``: groups whose rewards are all
    equal are dropped (dynamic sampling, DAPO, arXiv:2503.14476).
    """

    samples: int
    usable: int = 1
    rewarded: bool = True
    filtered: bool = False


def group_config(online: Online) -> GroupConfig:
    """The group shape of a method."""
    match online:
        case ReinforcementMethod(hyperparameters=settings):
            filtered = settings.dynamic_sampling is not None
            return GroupConfig(settings.samples_per_prompt, usable=2, filtered=filtered)
        case PpoMethod(hyperparameters=ppo):
            return GroupConfig(ppo.samples_per_prompt)
        case DistillationMethod():
            return GroupConfig(1, rewarded=False)


REWARD_TOLERANCE = 1e-9
"""Rewards that differ by less count as equal."""


@dataclass
class Group:
    """Samples of one prompt, by their index.

    ``number`` is the number of its draw; ``started`` the policy version under which it began;
    ``rewarded`` says that a sample needs a reward to be usable.
    """

    number: int
    prompt: Prompt
    size: int
    started: int
    rewarded: bool
    samples: dict[int, Trajectory] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Indexes of the samples that are not finished."""
        return [index for index in range(self.size) if index not in self.samples]

    @property
    def usable(self) -> list[Trajectory]:
        """The samples that can be trained on."""
        return [self.samples[index] for index in sorted(self.samples) if self._is_usable(index)]

    def _is_usable(self, index: int) -> bool:
        sample = self.samples[index]
        if sample.left_out is not None or sample.finish_reason.is_failure:
            return False
        if not any(sample.response_mask):
            return False
        return sample.reward is not None or not self.rewarded

    def passed(self, threshold: PassThreshold) -> int:
        """How many of the usable samples have the reward with which one passes."""
        least = threshold.of(source_of(self.prompt.extra))
        return sum(each.reward is not None and each.reward >= least for each in self.usable)

    @property
    def lost(self) -> bool:
        """Whether an outage lost one of the samples."""
        lost = [sample.left_out for sample in self.samples.values()]
        return any(each is not None and each.cause.is_outage for each in lost)

    @property
    def failure(self) -> str | None:
        """Why the first unusable sample failed; None if none has."""
        for index in sorted(self.samples):
            if not self._is_usable(index):
                sample = self.samples[index]
                reason = sample.error or sample.reward_error
                return reason or f"it ended without a token ({sample.finish_reason.value})"
        return None

    @property
    def has_signal(self) -> bool:
        """Whether the rewards differ; otherwise every advantage is 0."""
        rewards = [sample.reward or 0.0 for sample in self.usable]
        return bool(rewards) and max(rewards) - min(rewards) > REWARD_TOLERANCE


class TrajectorySource(Protocol):
    """Samples responses to prompts; safe for concurrent use."""

    async def sample(self, draw: SampledPrompt, index: int) -> Trajectory:
        """Sample a response to a prompt, as its sample ``index``.

        A failure is recorded in the trajectory; nothing but ``CancelledError`` is raised.
        """
        ...


def restored_groups(
    checkpoint: TrainingCheckpoint | None, prompts: PromptSampler, rules: GroupConfig
) -> list[Group]:
    """The pending groups of a checkpoint, with the samples they had; those that were left out are
    sampled again."""
    if checkpoint is None:
        return []
    groups = {
        pending.number: Group(
            number=pending.number,
            prompt=prompts.at(pending.number).prompt,
            size=rules.samples,
            started=pending.started,
            rewarded=rules.rewarded,
        )
        for pending in checkpoint.position().groups
    }
    for sample in checkpoint.samples():
        if sample.trajectory.left_out is not None:
            continue
        groups[sample.group].samples[sample.trajectory.sample_index] = sample.trajectory
    return list(groups.values())


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
    remote teacher, whose top-k distribution travels with each sequence. ``masks_truncated``: no
    token of a truncated response is trained on.
    """

    max_length: int
    overlong: OverlongPenalty | None = None
    teacher: TopKTeacher | None = None
    masks_truncated: bool = False

    async def of(self, groups: Sequence[Group]) -> TrainingBatch:
        """A batch of all usable samples of the groups; raises what the teacher raises.

        The sequences of a session of an agent follow each other, the trajectory's own first.
        """
        samples = [(group, sample) for group in groups for sample in group.usable]
        sequences: list[TrainingSequence] = []
        for number, (group, sample) in enumerate(samples):
            own = self._sequence(sample, group.number, number)
            sequences += [own, *(self._branch(sample, own, each) for each in branches(sample))]
        return TrainingBatch(tuple(await self._taught(sequences)))

    def penalty(self, sample: Trajectory) -> float:
        """The overlong penalty of a sample, 0 or negative."""
        if self.overlong is None:
            return 0.0
        length = len(sample.response_token_ids)
        buffer, factor = self.overlong.buffer, self.overlong.factor
        return overlong_penalty(length, self.max_length, buffer, factor)

    async def _taught(self, sequences: Sequence[TrainingSequence]) -> Sequence[TrainingSequence]:
        """The sequences, each with the teacher's distribution at its own tokens."""
        if self.teacher is None:
            return sequences
        teacher, permits = self.teacher, asyncio.Semaphore(MAX_TEACHER_REQUESTS)

        async def ask(sequence: TrainingSequence) -> TrainingSequence:
            async with permits:
                return replace(sequence, teacher=await teacher.top(sequence.token_ids.tolist()))

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask(sequence)) for sequence in sequences]
        return [task.result() for task in asked]

    def _sequence(self, sample: Trajectory, group: int, number: int) -> TrainingSequence:
        return TrainingSequence(
            **self._tokens(sample, sample),
            reward=(sample.reward or 0.0) + self.penalty(sample),
            group=group,
            sample=number,
        )

    def _branch(
        self, sample: Trajectory, own: TrainingSequence, branch: AgentSequence
    ) -> TrainingSequence:
        """Another sequence of a sample's session: it has the sample's reward."""
        return replace(own, **self._tokens(sample, branch))

    def _tokens(self, sample: Trajectory, sequence: Trajectory | AgentSequence) -> dict[str, Any]:
        """The arrays of a sequence of a sample."""
        prompt, response = len(sequence.prompt_token_ids), sequence.response_mask
        if self.masks_truncated and sample.finish_reason in TRUNCATED:
            response = [0] * len(response)
        ids = sequence.prompt_token_ids + sequence.response_token_ids
        return {
            "token_ids": np.array(ids, np.int32),
            "mask": np.array([0] * prompt + response, np.bool_),
            "sampler_log_probs": np.array([0.0] * prompt + sequence.log_probs, np.float32),
            "policy_versions": np.array([-1] * prompt + sequence.policy_versions, np.int32),
        }


def branches(sample: Trajectory) -> list[AgentSequence]:
    """The further sequences of a session whose agent took up an earlier turn again, or began again.

    They have a token to train on, and were neither discarded nor auxiliary.
    """
    others = sample.agent.other_sequences if sample.agent is not None else []
    return [each for each in others if each.role is SequenceRole.AGENT and any(each.response_mask)]


def sampled_versions(sample: Trajectory) -> list[int]:
    """The policy versions of the sampled tokens that are trained on."""
    sequences = [sample.policy_versions, *(each.policy_versions for each in branches(sample))]
    return [version for versions in sequences for version in versions if version >= 0]


def overlong_penalty(length: int, max_length: int, buffer: int, factor: float = 1.0) -> float:
    """Soft overlong penalty (DAPO, Yu et al. 2025, arXiv:2503.14476, eq. 13).

    Added to the reward of a response of ``length`` tokens: 0 up to ``max_length - buffer``, then
    linear down to ``-factor`` at ``max_length``.
    """
    excess = length - (max_length - buffer)
    return -factor * min(max(excess / buffer, 0.0), 1.0)
