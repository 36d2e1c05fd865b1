"""What is known of each trained token before the weights change."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.online import (
    KlPenalty,
    KlTo,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)
from services.trainer.rl.learner.scoring import Scores
from services.trainer.rl.learner.trained_tokens import TrainedTokens
from services.trainer.rl.objectives.advantages import (
    generalised_advantages,
    group_advantages,
    whitened,
)
from services.trainer.rl.objectives.critic import explained_variance, rewards_at_the_end
from services.trainer.rl.objectives.divergence import penalised_rewards


@dataclass(frozen=True)
class ValueTargets:
    """For a critic: its values before the update, and what it is to learn, both (m,)."""

    old_values: Tensor
    returns: Tensor


@dataclass(frozen=True)
class Signals:
    """What the policy loss needs of each trained token; tensors (m,).

    ``old_log_probs`` is None when the first gradient is the only one: then they are those of the
    pass itself. ``reference_log_probs`` is None without a reference.
    """

    advantages: Tensor
    sampler_log_probs: Tensor
    old_log_probs: Tensor | None = None
    reference_log_probs: Tensor | None = None
    value_targets: ValueTargets | None = None

    def figures(self) -> dict[str, float]:
        """Their metrics."""
        if not len(self.advantages):
            return {}
        figures = {
            "advantage_mean": float(self.advantages.mean()),
            "advantage_std": float(self.advantages.std(correction=0)),
        }
        if self.value_targets is not None:
            old, returns = self.value_targets.old_values, self.value_targets.returns
            figures["value_explained_variance"] = explained_variance(old, returns)
        return figures


def group_signals(
    tokens: TrainedTokens,
    settings: ReinforcementHyperparameters,
    *,
    sampler: Tensor,
    old: Scores | None,
    reference: Tensor | None,
) -> Signals:
    """Each token has the advantage of its sequence, which is compared with its group."""
    device = sampler.device
    sequence_of = tokens.sequence_of.to(device)
    per_token = _token_rewards(tokens, settings.loss.kl, old, reference, device)
    rewards = per_token.new_zeros(len(tokens.sequences)).index_add_(0, sequence_of, per_token)
    groups = torch.tensor([each.group for each in tokens.sequences], device=device)
    advantages = group_advantages(rewards, groups, settings.advantage)[sequence_of]
    old_log_probs = None if old is None else old.log_probs
    return Signals(advantages.float(), sampler, old_log_probs, reference)


def critic_signals(
    tokens: TrainedTokens,
    settings: PpoHyperparameters,
    *,
    sampler: Tensor,
    old: Scores,
    reference: Tensor | None,
) -> Signals:
    """Each token is compared with what the critic expected before it."""
    device = sampler.device
    final = torch.tensor([each.final for each in tokens.sequences], device=device)
    advantages, returns = generalised_advantages(
        _token_rewards(tokens, settings.loss.kl, old, reference, device).float(),
        old.values,
        tokens.sequence_of.to(device),
        torch.where(final, 0.0, old.last_values),
        gamma=settings.gamma,
        lambda_=settings.gae_lambda,
    )
    if settings.whiten_advantages:
        advantages = whitened(advantages)
    targets = ValueTargets(old.values, returns)
    return Signals(advantages, sampler, old.log_probs, reference, targets)


def _token_rewards(
    tokens: TrainedTokens,
    kl: KlPenalty | None,
    old: Scores | None,
    reference: Tensor | None,
    device: torch.device,
) -> Tensor:
    """The rewards of sequences at their ends, less the KL penalty of each token; float64."""
    rewards = torch.tensor([each.reward for each in tokens.sequences], dtype=torch.float64)
    spread = rewards_at_the_end(rewards, tokens.lengths).to(device)
    if kl is None or kl.to is not KlTo.REWARD or old is None or reference is None:
        return spread
    return penalised_rewards(spread, old.log_probs, reference, kl.coefficient)
