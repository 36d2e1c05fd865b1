"""Learning from rewards: GRPO and relatives, and PPO."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from services.contracts.training.objectives import BY_COVARIANCE
from services.contracts.training.online import (
    Critic,
    PpoHyperparameters,
    ReinforcementHyperparameters,
)
from services.contracts.training.policy_loss import (
    Aggregation,
    Anchor,
    KlTo,
    PolicyLoss,
    RatioLevel,
    SequenceRatio,
)
from services.trainer.rl.corrections import sequence_log_ratios
from services.trainer.rl.extensions import ObjectiveFunction, TrainingFunctions
from services.trainer.rl.learner.exactness import check_exactness
from services.trainer.rl.learner.micro_batches import (
    BatchScorer,
    MicroBatch,
    ReferencePolicy,
    Scores,
    TrainedTokens,
)
from services.trainer.rl.learner.model import LogprobReader
from services.trainer.rl.learner.targets import (
    TokenTargets,
    ValueTargets,
    critic_targets,
    group_targets,
)
from services.trainer.rl.learner.token_losses import PolicyTokens, kept, surrogate
from services.trainer.rl.learner.update import Loss, MetricAccumulator, Passes
from services.trainer.rl.losses import (
    importance_ratios,
    k3,
    kl_estimates,
    tis_weights,
    value_loss,
)
from services.trainer.rl.objectives import covariant_tokens


class PolicyGradient:
    """The clipped surrogate, with group-relative advantages or a critic."""

    def __init__(
        self,
        settings: ReinforcementHyperparameters | PpoHyperparameters,
        model: Any,
        scorer: BatchScorer,
        reference: ReferencePolicy | None,
        functions: TrainingFunctions,
    ) -> None:
        """``scorer`` scores with ``model``; a KL penalty needs a ``reference``; ``functions`` are
        those of ``settings`` that are extensions."""
        self._settings = settings
        self._model = model
        self._scorer = scorer
        self._reference = reference
        self._temperature = settings.sampling.temperature or 1.0
        epochs = settings.epochs if isinstance(settings, PpoHyperparameters) else 1
        self.passes = Passes(epochs, settings.mini_batches)
        self.aggregation: Aggregation = settings.loss.aggregation
        self._functions = functions

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
            if len(covariant):
                metrics["covariant_fraction"] = float(covariant.float().mean())
        return _BatchLoss(
            settings,
            critic,
            self._model,
            token_targets,
            self._temperature,
            covariant,
            self._functions.objective,
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
            extension=self._functions.advantage,
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
        token_targets = self.token_targets
        old = self._old_log_probs(micro, log_probs, moved=accumulator.moved)
        advantages = token_targets.advantages[micro.tokens]
        accumulator.per_token(micro.tokens, old, entropies, advantages)
        anchor = old
        if self.settings.anchor is Anchor.SAMPLER:
            anchor = token_targets.sampler_log_probs[micro.tokens]
        tokens = self._policy_tokens(micro, log_probs, anchor)
        unmasked = kept(self.settings, tokens)
        if unmasked is not None:
            accumulator.mean("masked_fraction", ~unmasked)
        summed = partial(_summed, weights, unmasked)
        loss = summed(self._policy_losses(tokens, accumulator))
        accumulator.part("policy_loss", loss)
        accumulator.mean("entropy", entropies)
        if self.settings.entropy_bonus:
            loss = loss - self.settings.entropy_bonus * summed(entropies)
        loss = loss + self._penalty(micro, log_probs, anchor, summed, accumulator)
        targets = token_targets.value_targets
        if self.critic is not None and targets is not None:
            loss = loss + _value_part(self.critic, targets, micro, values, weights, accumulator)
        accumulator.part("loss", loss)
        return loss

    def _old_log_probs(self, micro: MicroBatch, log_probs: Tensor, *, moved: bool) -> Tensor:
        """The log-probabilities before the update (m,); NaN if they were not computed before it
        ``moved`` the weights, as ratios to the sampler do without them."""
        scored = self.token_targets.old_log_probs
        if scored is not None:
            return scored[micro.tokens]
        return torch.full_like(log_probs, torch.nan) if moved else log_probs.detach()

    def _policy_tokens(self, micro: MicroBatch, log_probs: Tensor, anchor: Tensor) -> PolicyTokens:
        """What the policy loss reads of the tokens of a micro-batch."""
        sampler = self.token_targets.sampler_log_probs[micro.tokens]
        advantages = self.token_targets.advantages[micro.tokens]
        ratios = importance_ratios(log_probs, anchor, micro.row_of, self.settings.ratio)
        covariant = None if self.covariant is None else self.covariant[micro.tokens]
        return PolicyTokens(log_probs, anchor, sampler, ratios, advantages, micro.row_of, covariant)

    def _policy_losses(self, tokens: PolicyTokens, accumulator: MetricAccumulator) -> Tensor:
        """The policy losses (m,), those of masked tokens included."""
        settings, anchor, sampler = self.settings, tokens.anchor_log_probs, tokens.sampler_log_probs
        found = surrogate(settings, tokens, self.objective)
        accumulator.mean("ratio_mean", tokens.ratios)
        accumulator.mean("clip_fraction_low", found.clipped_low)
        accumulator.mean("clip_fraction_high", found.clipped_high)
        if settings.dual_clip is not None:
            accumulator.mean("dual_clip_fraction", found.clipped_dual)
        if settings.tis_cap is None:
            return found.losses
        trusted = anchor  # the old policy: ratios to the sampler have no cap
        if settings.tis_level is RatioLevel.SEQUENCE:
            product = SequenceRatio.PRODUCT
            trusted = sampler + sequence_log_ratios(anchor - sampler, tokens.sequence_of, product)
        corrections = tis_weights(trusted, sampler, settings.tis_cap)
        accumulator.mean("importance_weight_mean", corrections)
        accumulator.largest("importance_weight_max", corrections)
        accumulator.mean("importance_weight_capped_fraction", corrections >= settings.tis_cap)
        return found.losses * corrections

    def _penalty(
        self,
        micro: MicroBatch,
        log_probs: Tensor,
        anchor: Tensor,
        summed: Callable[[Tensor], Tensor],
        accumulator: MetricAccumulator,
    ) -> Tensor | float:
        """The KL penalty term of the loss, which is ``summed`` over tokens."""
        reference, kl = self.token_targets.reference_log_probs, self.settings.kl
        if kl is None or reference is None:
            return 0.0
        accumulator.mean("kl", k3(log_probs, reference[micro.tokens]))
        if kl.to is not KlTo.LOSS:
            return 0.0
        divergences = kl_estimates(log_probs, anchor, reference[micro.tokens], kl.estimate)
        return kl.coefficient * summed(divergences)


def _summed(weights: Tensor, unmasked: Tensor | None, values: Tensor) -> Tensor:
    """The weighted sum of what tokens add to the loss, all (m,); masked ones add nothing."""
    if unmasked is not None:
        values = torch.where(unmasked, values, 0.0)
    return (weights * values).sum()


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
