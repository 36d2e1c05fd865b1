"""Groups: the samples of one prompt, which GRPO compares with each other."""

from dataclasses import dataclass, field

from services.contracts.online import DistillationMethod, PpoMethod, ReinforcementMethod
from services.contracts.trajectories import Trajectory
from services.rollouts.prompts import Prompt
from services.trainer.rl.checkpoints import Checkpoint
from services.trainer.rl.prompts import PromptSampler
from services.trainer.rl.spec import Online


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
        if sample.finish_reason.is_failure or not any(sample.response_mask):
            return False
        return sample.reward is not None or not self.rewarded

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


def restored_groups(
    checkpoint: Checkpoint | None, prompts: PromptSampler, rules: GroupConfig
) -> list[Group]:
    """The pending groups of a checkpoint, with the samples they had."""
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
