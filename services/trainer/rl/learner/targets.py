"""What the loss of a batch learning from rewards compares its tokens with."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.training.online import PpoHyperparameters, ReinforcementHyperparameters
from services.contracts.training.policy_loss import Anchor, KlPenalty, KlTo
from services.trainer.rl.extensions import AdvantageFunction
from services.trainer.rl.learner.micro_batches import Scores, TrainedTokens
from services.trainer.rl.losses import (
    explained_variance,
    gae_advantages,
    group_advantages,
    kl_estimates,
    terminal_rewards,
    whiten,
)


@dataclass(frozen=True)
class ValueTargets:
    """The critic's values before the update and its regression targets, both (m,)."""

    old_values: Tensor
    returns: Tensor


@dataclass(frozen=True)
class TokenTargets:
    """What the policy loss needs for each trained token; tensors (m,).

    ``old_log_probs`` is None if the update takes a single optimizer step: the log-probabilities of
    that pass are the old ones. ``reference_log_probs`` is None without a reference.
    """

    advantages: Tensor
    sampler_log_probs: Tensor
    old_log_probs: Tensor | None = None
    reference_log_probs: Tensor | None = None
    value_targets: ValueTargets | None = None

    def anchor_log_probs(self, anchor: Anchor) -> Tensor:
        """The log-probabilities that ratios are relative to, of the whole batch."""
        if anchor is Anchor.SAMPLER:
            return self.sampler_log_probs
        assert self.old_log_probs is not None  # noqa: S101 - scored for objectives that ask
        return self.old_log_probs

    def metrics(self) -> dict[str, float]:
        """Metrics of the targets."""
        if not len(self.advantages):
            return {}
        metrics = {
            "advantage_mean": float(self.advantages.mean()),
            "advantage_std": float(self.advantages.std(correction=0)),
        }
        if self.value_targets is not None:
            old, returns = self.value_targets.old_values, self.value_targets.returns
            metrics["value_explained_variance"] = explained_variance(old, returns)
        return metrics


def group_targets(
    tokens: TrainedTokens,
    settings: ReinforcementHyperparameters,
    *,
    sampler: Tensor,
    old: Scores | None,
    reference: Tensor | None,
    extension: AdvantageFunction | None = None,
) -> TokenTargets:
    """Each token gets its sample's advantage within the group, by ``extension`` if there is one."""
    device = sampler.device
    sample_of = tokens.sample_of[tokens.sequence_of].to(device)
    firsts = tokens.first_sequences
    rewards = _rewards(tokens)[firsts].to(device)
    penalties = _reward_penalties(settings.loss.kl, old, reference)
    if penalties is not None:
        rewards = rewards.index_add(0, sample_of, -penalties.to(rewards.dtype))
    groups = torch.tensor([tokens.sequences[each].group for each in firsts], device=device)
    if extension is None:
        advantages = group_advantages(rewards, groups, settings.advantage)
    else:
        advantages = extension(rewards=rewards, groups=groups)
    advantages = advantages[sample_of]
    old_log_probs = None if old is None else old.log_probs
    return TokenTargets(advantages.float(), sampler, old_log_probs, reference)


def critic_targets(
    tokens: TrainedTokens,
    settings: PpoHyperparameters,
    *,
    sampler: Tensor,
    old: Scores,
    reference: Tensor | None,
) -> TokenTargets:
    """Each token's advantage is relative to the critic's value before it (GAE)."""
    device = sampler.device
    advantages, returns = gae_advantages(
        _token_rewards(tokens, settings.loss.kl, old, reference, device).float(),
        old.values,
        tokens.sequence_of.to(device),
        gamma=settings.gamma,
        lambda_=settings.gae_lambda,
    )
    if settings.whiten_advantages:
        advantages = whiten(advantages)
    targets = ValueTargets(old.values, returns)
    return TokenTargets(advantages, sampler, old.log_probs, reference, targets)


def _token_rewards(
    tokens: TrainedTokens,
    kl: KlPenalty | None,
    old: Scores | None,
    reference: Tensor | None,
    device: torch.device,
) -> Tensor:
    """The terminal reward of each sequence, less the KL penalty of each token; float64."""
    spread = terminal_rewards(_rewards(tokens), tokens.lengths).to(device)
    penalties = _reward_penalties(kl, old, reference)
    return spread if penalties is None else spread - penalties


def _rewards(tokens: TrainedTokens) -> Tensor:
    return torch.tensor([each.reward for each in tokens.sequences], dtype=torch.float64)


def _reward_penalties(
    kl: KlPenalty | None, old: Scores | None, reference: Tensor | None
) -> Tensor | None:
    """What the KL penalty takes off the reward of each token."""
    if kl is None or kl.to is not KlTo.REWARD or old is None or reference is None:
        return None
    before = old.log_probs
    return kl.coefficient * kl_estimates(before, before, reference, kl.estimate)
