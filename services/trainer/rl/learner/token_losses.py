"""What each token adds to the policy loss, by the objective and the masks of a training."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.training.objectives import Objective
from services.contracts.training.policy_loss import Anchor, PolicyLoss
from services.trainer.rl.corrections import off_policy_kept, sequence_log_ratios, within
from services.trainer.rl.extensions import ObjectiveFunction
from services.trainer.rl.losses import Clipping, Surrogate, clipped_surrogate_loss
from services.trainer.rl.objectives import (
    cispo_loss,
    clip_covariance_loss,
    penalized_covariance_loss,
    soft_gated_loss,
    total_variation_loss,
)


@dataclass(frozen=True)
class PolicyTokens:
    """The trained tokens of a micro-batch, all (c,).

    ``log_probs`` and ``ratios`` have a gradient. ``covariant`` are the tokens that an objective by
    covariance treats apart; None for other objectives.
    """

    log_probs: Tensor
    anchor_log_probs: Tensor
    sampler_log_probs: Tensor
    ratios: Tensor
    advantages: Tensor
    sequence_of: Tensor
    covariant: Tensor | None = None


def surrogate(
    settings: PolicyLoss, tokens: PolicyTokens, extension: ObjectiveFunction | None
) -> Surrogate:
    """The losses of the objective; ``extension`` is that of another package, if it is one."""
    if extension is not None:
        none = torch.zeros_like(tokens.ratios, dtype=torch.bool)
        return Surrogate(_losses_of(extension, tokens), none, none, none)
    if tokens.covariant is not None:
        return _by_covariance(settings, tokens, tokens.covariant)
    clipping = _clipping(settings)
    log_probs, anchor = tokens.log_probs, tokens.anchor_log_probs
    ratios, advantages = tokens.ratios, tokens.advantages
    match settings.objective:
        case Objective.CISPO:
            return cispo_loss(log_probs, ratios, advantages, clipping)
        case Objective.DPPO_TV:
            return total_variation_loss(log_probs, anchor, ratios, advantages, clipping)
        case Objective.SAPO:
            return soft_gated_loss(ratios, advantages, settings.gate_temperatures)
        case _:
            return clipped_surrogate_loss(ratios, advantages, clipping)


def _clipping(settings: PolicyLoss) -> Clipping:
    return Clipping(settings.clip_low, settings.clip_high, settings.dual_clip)


def _by_covariance(settings: PolicyLoss, tokens: PolicyTokens, covariant: Tensor) -> Surrogate:
    ratios, advantages = tokens.ratios, tokens.advantages
    if settings.objective is Objective.CLIP_COV:
        return clip_covariance_loss(ratios, advantages, _clipping(settings), covariant)
    log_probs, anchor = tokens.log_probs, tokens.anchor_log_probs
    coefficient = settings.covariance.kl
    return penalized_covariance_loss(log_probs, anchor, ratios, advantages, covariant, coefficient)


def _losses_of(extension: ObjectiveFunction, tokens: PolicyTokens) -> Tensor:
    return extension(
        log_probs=tokens.log_probs,
        anchor_log_probs=tokens.anchor_log_probs,
        sampler_log_probs=tokens.sampler_log_probs,
        ratios=tokens.ratios,
        advantages=tokens.advantages,
        sequence_of=tokens.sequence_of,
    )


def kept(settings: PolicyLoss, tokens: PolicyTokens) -> Tensor | None:
    """The tokens that no mask leaves out; None without a mask.

    Masks bound p_old / p_sampler; where ratios are relative to the sampler, these p / p_sampler.
    """
    trusted = tokens.anchor_log_probs
    if settings.anchor is Anchor.SAMPLER:
        trusted = tokens.log_probs.detach()
    log_ratios = trusted - tokens.sampler_log_probs
    masks: list[Tensor] = []
    if settings.token_mask is not None:
        masks.append(within(log_ratios, *settings.token_mask))
    if (mask := settings.sequence_mask) is not None:
        whole = sequence_log_ratios(log_ratios, tokens.sequence_of, mask.ratio)
        masks.append(within(whole, mask.low, mask.high))
    if (threshold := settings.off_policy_mask) is not None:
        log_probs, sampler = tokens.log_probs, tokens.sampler_log_probs
        advantages, sequence_of = tokens.advantages, tokens.sequence_of
        masks.append(off_policy_kept(log_probs, sampler, advantages, sequence_of, threshold))
    return torch.stack(masks).all(0) if masks else None
