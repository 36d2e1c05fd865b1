"""The loss of a critic."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ValueLoss:
    """Losses (m,), and where the clipped value was the worse one (m,), as truth values."""

    losses: Tensor
    clipped: Tensor


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None
) -> ValueLoss:
    """Half the squared error; that of a value kept within ``clip`` of its old one, if larger.

    All tensors (m,).
    """
    free = (values - returns).square()
    if clip is None:
        return ValueLoss(0.5 * free, torch.zeros_like(free, dtype=torch.bool))
    near = old_values + (values - old_values).clamp(-clip, clip)
    clipped = (near - returns).square()
    return ValueLoss(0.5 * torch.maximum(free, clipped), clipped > free)


def terminal_rewards(rewards: Tensor, lengths: Tensor) -> Tensor:
    """Give each sequence's reward to its last trained token.

    ``rewards`` and ``lengths`` (s,); a sequence without trained tokens gives nothing. Returns
    (m,).
    """
    spread = rewards.new_zeros(int(lengths.sum()))
    ends = lengths.cumsum(0) - 1
    spread[ends[lengths > 0]] = rewards[lengths > 0]
    return spread


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Of the variance of returns (m,), the part that values (m,) told before; 1 is all, and less
    than 0 is worse than a constant. 0 when returns are all alike."""
    variance = returns.var(correction=0)
    if variance == 0:
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)
