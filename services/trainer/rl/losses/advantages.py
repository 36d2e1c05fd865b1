"""Advantages: how much better a sample, or a token, was than expected."""

import torch
from torch import Tensor

from services.contracts.online import AdvantageEstimator

EPSILON = 1e-6


def group_advantages(rewards: Tensor, groups: Tensor, estimator: AdvantageEstimator) -> Tensor:
    """Compare each sample with the others of its prompt.

    ``rewards`` (s,), ``groups`` (s,) with one number for the samples of a prompt. A sample that is
    alone in its group, or not better or worse than the others, has advantage 0. Returns (s,).
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
    """Shift and scale to mean 0 and variance 1; a single value, or equal ones, become 0."""
    if len(values) < 2:
        return torch.zeros_like(values)
    return (values - values.mean()) / (values.std() + EPSILON)


def gae_advantages(
    rewards: Tensor,
    values: Tensor,
    sequence_of: Tensor,
    last_values: Tensor,
    *,
    gamma: float,
    lambda_: float,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over the tokens that the policy wrote.

    What tools inserted lies between two of its tokens like nothing at all: a token's successor is
    the next trained one. ``rewards`` and ``values`` (m,) are those of each token and of the state
    before it; ``last_values`` (s,) are what is still to be expected after the end: 0 where the
    sequence ended by itself. Returns advantages and returns, both (m,).
    """
    rows, columns, shape = _grid(sequence_of, len(last_values))
    padded_rewards, padded_values = rewards.new_zeros(shape), values.new_zeros(shape)
    padded_rewards[rows, columns] = rewards
    padded_values[rows, columns] = values
    lengths = torch.bincount(sequence_of, minlength=shape[0])
    advantages = torch.zeros_like(padded_values)
    following = torch.zeros_like(last_values)
    next_values = last_values
    for column in range(shape[1] - 1, -1, -1):
        inside = column < lengths
        value = padded_values[:, column]
        surprise = padded_rewards[:, column] + gamma * next_values - value
        following = torch.where(inside, surprise + gamma * lambda_ * following, following)
        next_values = torch.where(inside, value, next_values)
        advantages[:, column] = following
    ragged = advantages[rows, columns]
    return ragged, ragged + values


def _grid(sequence_of: Tensor, sequences: int) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """The row and column of each token in a table of one row a sequence, and the table's shape."""
    lengths = torch.bincount(sequence_of, minlength=sequences)
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(len(sequence_of), device=sequence_of.device) - starts[sequence_of]
    return sequence_of, columns, (sequences, int(lengths.max()) if len(lengths) else 0)
