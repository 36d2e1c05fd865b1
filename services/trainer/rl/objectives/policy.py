"""The clipped surrogate loss of PPO, GRPO, DAPO and GSPO."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.online import RatioLevel


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


def surrogate_loss(ratios: Tensor, advantages: Tensor, clipping: Clipping) -> Surrogate:
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


def truncated_weights(old_log_probs: Tensor, sampler_log_probs: Tensor, cap: float) -> Tensor:
    """min(exp(old - sampler), cap), without a gradient; all tensors (m,).

    Corrects for a sampler that is not quite the policy that learns: another implementation, or
    older weights.
    """
    return (old_log_probs - sampler_log_probs).detach().exp().clamp(max=cap)
