"""The samples of one prompt."""

from dataclasses import dataclass, field

from services.contracts.online import DistillationMethod, PpoMethod, ReinforcementMethod
from services.contracts.trajectories import Trajectory
from services.rollouts.prompts import Prompt
from services.trainer.rl.checkpoints import Checkpoint
from services.trainer.rl.prompts import PromptSampler
from services.trainer.rl.spec import Online


@dataclass(frozen=True)
class GroupConfig:
    """What makes a group: ``samples`` of a prompt, at least ``usable`` of them good.

    ``rewarded``: a good one has a reward. ``filtered``: a group whose rewards are all alike is
    dropped.
    """

    samples: int
    usable: int = 1
    rewarded: bool = True
    filtered: bool = False


def group_config(online: Online) -> GroupConfig:
    """What makes a group of samples."""
    match online:
        case ReinforcementMethod(hyperparameters=settings):
            filtered = settings.dynamic_sampling is not None
            return GroupConfig(settings.samples_per_prompt, usable=2, filtered=filtered)
        case PpoMethod(hyperparameters=ppo):
            return GroupConfig(ppo.samples_per_prompt)
        case DistillationMethod():
            return GroupConfig(1, rewarded=False)


REWARD_TOLERANCE = 1e-9
"""Rewards that differ by less are alike."""


@dataclass
class Group:
    """Samples of one prompt, by their index.

    ``number`` is that of its draw from the prompts; ``started`` the policy version under which
    it began; ``rewarded`` says that a sample without a reward is none.
    """

    number: int
    prompt: Prompt
    size: int
    started: int
    rewarded: bool
    samples: dict[int, Trajectory] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Indexes of the samples that are still to be played."""
        return [index for index in range(self.size) if index not in self.samples]

    @property
    def usable(self) -> list[Trajectory]:
        """The samples that can be learned from."""
        return [self.samples[index] for index in sorted(self.samples) if self._is_usable(index)]

    def _is_usable(self, index: int) -> bool:
        sample = self.samples[index]
        if sample.finish_reason.is_failure or not any(sample.response_mask):
            return False
        return sample.reward is not None or not self.rewarded

    @property
    def failure(self) -> str | None:
        """Why its first failed sample failed; None where none has."""
        for index in sorted(self.samples):
            if not self._is_usable(index):
                sample = self.samples[index]
                reason = sample.error or sample.reward_error
                return reason or f"it ended without a token ({sample.finish_reason.value})"
        return None

    @property
    def has_signal(self) -> bool:
        """Whether the rewards differ, so that there is something to learn from them."""
        rewards = [sample.reward or 0.0 for sample in self.usable]
        return bool(rewards) and max(rewards) - min(rewards) > REWARD_TOLERANCE


def restored_groups(
    checkpoint: Checkpoint | None, prompts: PromptSampler, rules: GroupConfig
) -> list[Group]:
    """The groups, with the samples that they had."""
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
        groups[sample.group].samples[sample.trajectory.sample_index] = sample.trajectory
    return list(groups.values())
