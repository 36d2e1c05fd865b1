"""The clipped surrogate loss of PPO, GRPO, DAPO and GSPO."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.online import Aggregation, RatioLevel


@dataclass(frozen=True)
class Clipping:
    """Ratios count from 1 - ``low`` to 1 + ``high``; with a negative advantage the loss is at
    most -A * ``dual``."""

    low: float
    high: float
    dual: float | None = None


@dataclass(frozen=True)
class Surrogate:
    """Losses (m,), and where the clipping cut the gradient off (m,), as truth values."""

    losses: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor


def clipped_surrogate_loss(ratios: Tensor, advantages: Tensor, clipping: Clipping) -> Surrogate:
    """max(-A r, -A clip(r, 1 - low, 1 + high)), token by token; all tensors (m,)."""
    free = -advantages * ratios
    clipped = -advantages * ratios.clamp(1.0 - clipping.low, 1.0 + clipping.high)
    losses = torch.maximum(free, clipped)
    cut = clipped > free
    capped = torch.zeros_like(cut)
    if clipping.dual is not None:
        cap = -advantages * clipping.dual
        capped = (advantages < 0) & (losses > cap)
        losses = torch.where(capped, cap, losses)
    return Surrogate(losses, cut & (advantages < 0), cut & (advantages > 0), capped)


def importance_ratios(
    log_probs: Tensor, old_log_probs: Tensor, sequence_of: Tensor, level: RatioLevel
) -> Tensor:
    """How much more probable tokens have become, one by one or as sequences; all tensors (m,).

    The ratio of a sequence is the geometric mean over its tokens, given to each of them.
    """
    log_ratios = log_probs - old_log_probs
    if level is RatioLevel.SEQUENCE:
        sequences = int(sequence_of.max()) + 1 if len(sequence_of) else 0
        sums = log_ratios.new_zeros(sequences).index_add(0, sequence_of, log_ratios)
        lengths = torch.bincount(sequence_of, minlength=sequences).clamp(min=1)
        log_ratios = (sums / lengths)[sequence_of]
    return log_ratios.exp()


def tis_weights(old_log_probs: Tensor, sampler_log_probs: Tensor, cap: float) -> Tensor:
    """min(exp(old - sampler), cap), without a gradient; all tensors (m,).

    Corrects for a sampler that is not quite the policy that learns: another implementation, or
    older weights.
    """
    return (old_log_probs - sampler_log_probs).detach().exp().clamp(max=cap)


def k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """exp(ref - lp) - (ref - lp) - 1, an estimate of KL(policy || reference) that is never
    negative; all tensors (m,)."""
    difference = reference_log_probs - log_probs
    return difference.exp() - difference - 1.0


def kl_penalized_rewards(
    rewards: Tensor, log_probs: Tensor, reference_log_probs: Tensor, coefficient: float
) -> Tensor:
    """Take coefficient * (log-prob - reference) off the reward of each token; all (m,)."""
    return rewards - coefficient * (log_probs - reference_log_probs)


def token_weights(lengths: Tensor, aggregation: Aggregation, max_length: int) -> Tensor:
    """The weight of each trained token of a global batch.

    ``lengths`` (s,) counts the trained tokens of its sequences; those without any do not count as
    sequences. ``max_length`` is the constant of `Aggregation.MEAN_OF_SEQUENCE_SUMS`. Returns (m,),
    float32.
    """
    tokens = lengths.sum().clamp(min=1)
    sequences = (lengths > 0).sum().clamp(min=1)
    match aggregation:
        case Aggregation.MEAN_OF_TOKENS:
            weights = torch.ones_like(lengths, dtype=torch.float64) / tokens
        case Aggregation.MEAN_OF_SEQUENCE_MEANS:
            weights = 1.0 / (lengths.clamp(min=1).double() * sequences)
        case Aggregation.MEAN_OF_SEQUENCE_SUMS:
            weights = torch.ones_like(lengths, dtype=torch.float64) / (sequences * max_length)
    return weights.repeat_interleave(lengths).float()
