"""Advantages: how much better a sample, or a token, was than expected."""

import torch
from torch import Tensor

from services.contracts.online import AdvantageEstimator

EPSILON = 1e-6


def group_advantages(rewards: Tensor, groups: Tensor, estimator: AdvantageEstimator) -> Tensor:
    """Group-relative advantages.

    GRPO (Shao et al. 2024, arXiv:2402.03300): (r - mean) / (std + 1e-6), with the unbiased standard
    deviation (n - 1). Dr. GRPO (Liu et al. 2025, arXiv:2503.20783): r - mean. ``rewards`` (s,);
    ``groups`` (s,), equal for samples of one prompt. A sample alone in its group has advantage 0.
    Returns (s,).
    """
    names, group_of = torch.unique(groups, return_inverse=True)
    counts = torch.bincount(group_of, minlength=len(names)).to(rewards.dtype)
    means = torch.zeros_like(counts).index_add_(0, group_of, rewards) / counts
    deviations = rewards - means[group_of]
    if estimator is AdvantageEstimator.DR_GRPO:
        return deviations
    squares = torch.zeros_like(counts).index_add_(0, group_of, deviations.square())
    std = (squares / (counts - 1).clamp(min=1)).sqrt()
    return deviations / (std[group_of] + EPSILON)


def whiten(values: Tensor) -> Tensor:
    """Shift and scale to mean 0 and unbiased variance 1; constant values become 0."""
    if len(values) < 2:
        return torch.zeros_like(values)
    return (values - values.mean()) / (values.std() + EPSILON)


def gae_advantages(
    rewards: Tensor,
    values: Tensor,
    sequence_of: Tensor,
    *,
    gamma: float,
    lambda_: float,
) -> tuple[Tensor, Tensor]:
    """Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

    The recursion runs over trained tokens only: tool results between two of them are skipped, and a
    token's successor is the next trained one. ``rewards`` and ``values`` (m,) are the reward of
    each token and the value of the state before it. The value after the last token is 0, for
    truncated responses too: the critic is never trained there, so that bootstrapping from it would
    feed its own error back. Returns advantages and returns (value targets), both (m,).
    """
    rows, columns, shape = _grid(sequence_of)
    padded_rewards, padded_values = rewards.new_zeros(shape), values.new_zeros(shape)
    padded_rewards[rows, columns] = rewards
    padded_values[rows, columns] = values
    lengths = torch.bincount(sequence_of, minlength=shape[0])
    advantages = torch.zeros_like(padded_values)
    following = values.new_zeros(shape[0])
    next_values = following
    for column in range(shape[1] - 1, -1, -1):
        inside = column < lengths
        value = padded_values[:, column]
        delta = padded_rewards[:, column] + gamma * next_values - value
        following = torch.where(inside, delta + gamma * lambda_ * following, following)
        next_values = torch.where(inside, value, next_values)
        advantages[:, column] = following
    ragged = advantages[rows, columns]
    return ragged, ragged + values


def _grid(sequence_of: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each token in a table with one row per sequence, and its shape."""
    lengths = torch.bincount(sequence_of)
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(len(sequence_of), device=sequence_of.device) - starts[sequence_of]
    return sequence_of, columns, (len(lengths), int(lengths.max()) if len(lengths) else 0)
