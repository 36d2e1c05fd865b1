"""Learning from rewards: GRPO and relatives, and PPO."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from services.contracts.training.online import (
    Critic,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)
from services.contracts.training.policy_loss import (
    BY_COVARIANCE,
    Aggregation,
    Anchor,
    KlPenalty,
    KlTo,
    PolicyLoss,
    RatioLevel,
    SequenceRatio,
)
from services.trainer.rl.corrections import sequence_log_ratios
from services.trainer.rl.extensions import (
    AdvantageFunction,
    ObjectiveFunction,
    checked,
    load_advantage,
    load_objective,
)
from services.trainer.rl.learner.exactness import check_exactness
from services.trainer.rl.learner.micro_batches import (
    BatchScorer,
    MicroBatch,
    ReferencePolicy,
    Scores,
    TrainedTokens,
)
from services.trainer.rl.learner.model import LogprobReader
from services.trainer.rl.learner.token_losses import PolicyTokens, kept, surrogate
from services.trainer.rl.learner.update import Loss, MetricAccumulator, Passes
from services.trainer.rl.losses import (
    explained_variance,
    gae_advantages,
    group_advantages,
    importance_ratios,
    k3,
    kl_estimates,
    terminal_rewards,
    tis_weights,
    value_loss,
    whiten,
)
from services.trainer.rl.objectives import covariant_tokens


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
        given = extension(rewards=rewards, groups=groups)
        advantages = checked(given, rewards, str(settings.advantage_extension))
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


class PolicyGradient:
    """The clipped surrogate, with group-relative advantages or a critic."""

    def __init__(
        self,
        settings: ReinforcementHyperparameters | PpoHyperparameters,
        model: Any,
        scorer: BatchScorer,
        reference: ReferencePolicy | None,
    ) -> None:
        """``scorer`` scores with ``model``; a KL penalty needs a ``reference``."""
        self._settings = settings
        self._model = model
        self._scorer = scorer
        self._reference = reference
        self._temperature = settings.sampling.temperature or 1.0
        epochs = settings.epochs if isinstance(settings, PpoHyperparameters) else 1
        self.passes = Passes(epochs, settings.mini_batches)
        self.aggregation: Aggregation = settings.loss.aggregation
        self._objective: ObjectiveFunction | None = None
        if settings.loss.extension is not None:
            self._objective = load_objective(settings.loss.extension)
        named = None
        if isinstance(settings, ReinforcementHyperparameters):
            named = settings.advantage_extension
        self._advantage: AdvantageFunction | None = load_advantage(named) if named else None

    def begin(self, tokens: TrainedTokens, metrics: dict[str, float]) -> Loss:
        """Score a batch under the current weights and compute its advantages."""
        token_targets = self._token_targets(tokens)
        metrics |= token_targets.metrics()
        critic = self._settings.critic if isinstance(self._settings, PpoHyperparameters) else None
        settings = self._settings.loss
        covariant = None
        if settings.objective in BY_COVARIANCE:
            anchor = token_targets.anchor_log_probs(settings.anchor)
            selection, objective = settings.covariance, settings.objective
            covariant = covariant_tokens(anchor, token_targets.advantages, selection, objective)
            metrics["covariant_fraction"] = float(covariant.float().mean())
        return _BatchLoss(
            settings,
            critic,
            self._model,
            token_targets,
            self._temperature,
            covariant,
            self._objective,
        )

    def _token_targets(self, tokens: TrainedTokens) -> TokenTargets:
        settings = self._settings
        sampler = tokens.sampler_log_probs.to(self._scorer.device)
        reference = None
        if self._reference is not None:
            reference = self._reference.log_probs(tokens, self._temperature)
        if isinstance(settings, PpoHyperparameters):
            old = self._scorer.score(tokens, self._temperature)
            self._check_exactness(old, tokens)
            return critic_targets(tokens, settings, sampler=sampler, old=old, reference=reference)
        kl = settings.loss.kl
        moves = self.passes.steps > 1 and settings.loss.anchor is Anchor.OLD
        selects = settings.loss.objective in BY_COVARIANCE and settings.loss.anchor is Anchor.OLD
        checks = settings.exact_on_policy and self.passes.steps > 1
        looks_back = moves or selects or checks or (kl is not None and kl.to is KlTo.REWARD)
        before = self._scorer.score(tokens, self._temperature) if looks_back else None
        if before is not None:
            self._check_exactness(before, tokens)
        return group_targets(
            tokens,
            settings,
            sampler=sampler,
            old=before,
            reference=reference,
            extension=self._advantage,
        )

    def _check_exactness(self, before: Scores, tokens: TrainedTokens) -> None:
        if self._settings.exact_on_policy:
            check_exactness(before.log_probs, tokens)


@dataclass(frozen=True)
class _BatchLoss:
    """The loss of a batch, one micro-batch at a time."""

    settings: PolicyLoss
    critic: Critic | None
    model: Any
    token_targets: TokenTargets
    temperature: float
    covariant: Tensor | None
    objective: ObjectiveFunction | None

    def __call__(
        self, micro: MicroBatch, weights: Tensor, accumulator: MetricAccumulator
    ) -> Tensor:
        """The weighted sum of the losses of the policy and of its critic."""
        read = LogprobReader(micro.targets, self.temperature, self.settings.entropy_bonus > 0)
        (log_probs, entropies), values = self.model(
            micro.token_ids, micro.lengths, micro.states, read
        )
        token_targets, old = self.token_targets, log_probs.detach()
        if token_targets.old_log_probs is not None:
            old = token_targets.old_log_probs[micro.tokens]
        accumulator.per_token(micro.tokens, old, entropies, token_targets.advantages[micro.tokens])
        loss = (weights * self._policy_losses(micro, log_probs, old, accumulator)).sum()
        accumulator.part("policy_loss", loss)
        accumulator.mean("entropy", entropies)
        if self.settings.entropy_bonus:
            loss = loss - self.settings.entropy_bonus * (weights * entropies).sum()
        loss = loss + self._penalty(micro, log_probs, old, weights, accumulator)
        targets = token_targets.value_targets
        if self.critic is not None and targets is not None:
            loss = loss + _value_part(self.critic, targets, micro, values, weights, accumulator)
        accumulator.part("loss", loss)
        return loss

    def _policy_losses(
        self, micro: MicroBatch, log_probs: Tensor, old: Tensor, accumulator: MetricAccumulator
    ) -> Tensor:
        """The policy losses (m,)."""
        token_targets, settings = self.token_targets, self.settings
        sampler = token_targets.sampler_log_probs[micro.tokens]
        advantages = token_targets.advantages[micro.tokens]
        anchor = sampler if settings.anchor is Anchor.SAMPLER else old
        ratios = importance_ratios(log_probs, anchor, micro.row_of, settings.ratio)
        covariant = None if self.covariant is None else self.covariant[micro.tokens]
        tokens = PolicyTokens(
            log_probs, anchor, sampler, ratios, advantages, micro.row_of, covariant
        )
        found = surrogate(settings, tokens, self.objective)
        accumulator.mean("ratio_mean", ratios)
        accumulator.mean("clip_fraction_low", found.clipped_low)
        accumulator.mean("clip_fraction_high", found.clipped_high)
        if settings.dual_clip is not None:
            accumulator.mean("dual_clip_fraction", found.clipped_dual)
        accumulator.mean("sampler_kl", k3(old, sampler))
        unmasked = kept(settings, tokens, old - sampler)
        losses = found.losses
        if unmasked is not None:
            accumulator.mean("masked_fraction", ~unmasked)
            losses = torch.where(unmasked, losses, 0.0)
        if settings.tis_cap is None:
            return losses
        trusted = old
        if settings.tis_level is RatioLevel.SEQUENCE:
            product = SequenceRatio.PRODUCT
            trusted = sampler + sequence_log_ratios(old - sampler, micro.row_of, product)
        corrections = tis_weights(trusted, sampler, settings.tis_cap)
        accumulator.mean("importance_weight_mean", corrections)
        accumulator.largest("importance_weight_max", corrections)
        accumulator.mean("importance_weight_capped_fraction", corrections >= settings.tis_cap)
        return losses * corrections

    def _penalty(
        self,
        micro: MicroBatch,
        log_probs: Tensor,
        old: Tensor,
        weights: Tensor,
        accumulator: MetricAccumulator,
    ) -> Tensor | float:
        """The KL penalty term of the loss."""
        reference, kl = self.token_targets.reference_log_probs, self.settings.kl
        if kl is None or reference is None:
            return 0.0
        accumulator.mean("kl", k3(log_probs, reference[micro.tokens]))
        if kl.to is not KlTo.LOSS:
            return 0.0
        divergences = kl_estimates(log_probs, old, reference[micro.tokens], kl.estimate)
        return kl.coefficient * (weights * divergences).sum()


def _value_part(
    critic: Critic,
    targets: ValueTargets,
    micro: MicroBatch,
    values: Tensor,
    weights: Tensor,
    accumulator: MetricAccumulator,
) -> Tensor:
    """The critic's term of the loss; scaled if it shares the policy's trunk."""
    old_values, returns = targets.old_values[micro.tokens], targets.returns[micro.tokens]
    fit = value_loss(values, old_values, returns, critic.clip)
    loss = (weights * fit.losses).sum()
    accumulator.part("value_loss", loss)
    accumulator.mean("value_mean", values)
    accumulator.mean("value_clip_fraction", fit.clipped)
    return loss * critic.coefficient if critic.kind == "shared" else loss
