"""Policy losses: the clipped surrogate of PPO, GRPO, DAPO and GSPO, truncated importance sampling,
KL penalties, and how token losses are aggregated."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.contracts.online import Aggregation, RatioLevel

MAX_LOG_RATIO, MAX_K3 = 20.0, 10.0
"""Bounds of k3, as in verl: one improbable token must not dominate the loss, or overflow."""


@dataclass(frozen=True)
class Clipping:
    """Clip ratios to [1 - ``low``, 1 + ``high``]; with a negative advantage, ``dual`` bounds the
    loss by -A * ``dual`` (dual-clip PPO, Ye et al. 2020, arXiv:1912.09729)."""

    low: float
    high: float
    dual: float | None = None


@dataclass(frozen=True)
class Surrogate:
    """Losses (m,), and boolean masks (m,): tokens whose gradient is clipped."""

    losses: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor


def clipped_surrogate_loss(ratios: Tensor, advantages: Tensor, clipping: Clipping) -> Surrogate:
    """max(-A r, -A clip(r, 1 - low, 1 + high)) per token; all tensors (m,).

    Schulman et al. 2017, arXiv:1707.06347; separate bounds: DAPO (clip-higher), Yu et al. 2025,
    arXiv:2503.14476.
    """
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
    """exp(log p - log p_old), per token or per sequence; all tensors (m,).

    A sequence ratio is the geometric mean over its tokens, assigned to each of them (GSPO, Zheng et
    al. 2025, arXiv:2507.18071).
    """
    log_ratios = log_probs - old_log_probs
    if level is RatioLevel.SEQUENCE:
        sequences = int(sequence_of.max()) + 1 if len(sequence_of) else 0
        sums = log_ratios.new_zeros(sequences).index_add(0, sequence_of, log_ratios)
        lengths = torch.bincount(sequence_of, minlength=sequences).clamp(min=1)
        log_ratios = (sums / lengths)[sequence_of]
    return log_ratios.exp()


def tis_weights(old_log_probs: Tensor, sampler_log_probs: Tensor, cap: float) -> Tensor:
    """Truncated importance sampling: min(exp(old - sampler), cap), detached; all tensors (m,).

    Corrects for a sampler that is not exactly the old policy: another implementation, or older
    weights (Ionides 2008; Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You
    Off-Policy RL Training").
    """
    return (old_log_probs - sampler_log_probs).detach().exp().clamp(max=cap)


def k3(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """exp(d) - 1 - d with d = log p_ref - log p: a non-negative estimate of KL(policy || reference)
    on samples of the policy, in nats (Schulman 2020, "Approximating KL Divergence"), unbiased
    within its clamps. All tensors (m,)."""
    difference = (reference_log_probs - log_probs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return (difference.exp() - difference - 1.0).clamp(max=MAX_K3)


def kl_penalized_rewards(
    rewards: Tensor, log_probs: Tensor, reference_log_probs: Tensor, coefficient: float
) -> Tensor:
    """Subtract coefficient * (log p - log p_ref) from the reward of each token (k1 estimator, as in
    InstructGPT, Ouyang et al. 2022, arXiv:2203.02155); all (m,)."""
    return rewards - coefficient * (log_probs - reference_log_probs)


def token_weights(lengths: Tensor, aggregation: Aggregation, max_length: int) -> Tensor:
    """The weight of each trained token of a global batch in the loss.

    The loss is the weighted sum of token losses; as the weights cover the whole batch, it does not
    depend on how the batch is split into micro-batches and processes. token-mean: 1 / tokens
    (DAPO); seq-mean-token-mean: 1 / (length * sequences) (GRPO); seq-mean-token-sum-norm: 1 /
    (sequences * ``max_length``) (Dr. GRPO). ``lengths`` (s,) counts the trained tokens of the
    sequences; empty ones are not counted. Returns (m,), float32.
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
