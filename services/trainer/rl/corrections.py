"""Weights and masks for samples that are not the trained policy's own: pure functions of tensors.

All tensors are over trained tokens, (m,), as in `services.trainer.rl.losses`; nothing here has a
gradient. ``log_ratios`` are log p_old - log p_sampler, or log p - log p_sampler where ratios are
relative to the sampler.
"""

import torch
from torch import Tensor

from services.contracts.training.policy_loss import SequenceRatio


def sequence_log_ratios(log_ratios: Tensor, sequence_of: Tensor, ratio: SequenceRatio) -> Tensor:
    """The mean (geometric) or the sum (product) of each sequence's log-ratios, at its tokens."""
    sequences = int(sequence_of.max()) + 1 if len(sequence_of) else 0
    sums = log_ratios.new_zeros(sequences).index_add(0, sequence_of, log_ratios)
    if ratio is SequenceRatio.GEOMETRIC:
        sums = sums / torch.bincount(sequence_of, minlength=sequences).clamp(min=1)
    return sums[sequence_of]


def within(log_ratios: Tensor, low: float, high: float) -> Tensor:
    """Whether each ratio is within bounds: with those of tokens this is the mask of IcePop (Ling
    Team 2025, arXiv:2510.18855)."""
    ratios = log_ratios.detach().exp()
    return (ratios >= low) & (ratios <= high)


def off_policy_kept(
    log_probs: Tensor,
    sampler_log_probs: Tensor,
    advantages: Tensor,
    sequence_of: Tensor,
    threshold: float,
) -> Tensor:
    """Leave out sequences with a negative advantage that the policy has moved away from: those in
    which log p_sampler - log p is above ``threshold`` on average (off-policy sequence masking,
    DeepSeek-V3.2, arXiv:2512.02556)."""
    moved = (sampler_log_probs - log_probs).detach()
    mean = sequence_log_ratios(moved, sequence_of, SequenceRatio.GEOMETRIC)
    return ~((advantages < 0) & (mean > threshold))
