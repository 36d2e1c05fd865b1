"""The value loss of a critic."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ValueLoss:
    """Losses (m,), and a boolean mask (m,): tokens whose clipped error was the larger one."""

    losses: Tensor
    clipped: Tensor


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None
) -> ValueLoss:
    """Half the squared error, clipped as in PPO (Schulman et al. 2017, arXiv:1707.06347): the
    larger of the error and that of the value clipped to within ``clip`` of its old one. All tensors
    (m,)."""
    free = (values - returns).square()
    if clip is None:
        return ValueLoss(0.5 * free, torch.zeros_like(free, dtype=torch.bool))
    near = old_values + (values - old_values).clamp(-clip, clip)
    clipped = (near - returns).square()
    return ValueLoss(0.5 * torch.maximum(free, clipped), clipped > free)


def terminal_rewards(rewards: Tensor, lengths: Tensor) -> Tensor:
    """Assign each sequence's reward to its last trained token.

    ``rewards`` and ``lengths`` (s,); sequences without trained tokens contribute nothing. Returns
    (m,).
    """
    spread = rewards.new_zeros(int(lengths.sum()))
    ends = lengths.cumsum(0) - 1
    spread[ends[lengths > 0]] = rewards[lengths > 0]
    return spread


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(returns - values) / Var(returns), population variances; 0 if the returns are
    constant. Below 0 is worse than a constant prediction."""
    variance = returns.var(correction=0)
    if variance == 0:
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)
