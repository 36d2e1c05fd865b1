"""Policy objectives beside PPO's clipped surrogate: pure functions of tensors.

All tensors are over trained tokens, (m,), as in `services.trainer.rl.losses`.
"""

from dataclasses import replace

import torch
from torch import Tensor

from services.contracts.training.objectives import Covariance, Objective
from services.trainer.rl.losses import Clipping, Surrogate, clipped_surrogate_loss


def cispo_loss(
    log_probs: Tensor, ratios: Tensor, advantages: Tensor, clipping: Clipping
) -> Surrogate:
    """-A clip(r) log p, where the clipped ratio has no gradient, so that no token loses its own
    (CISPO, MiniMax 2025, arXiv:2506.13585). The masks mark tokens whose weight is clipped."""
    low, high = 1.0 - clipping.low, 1.0 + clipping.high
    weights = ratios.detach().clamp(low, high)
    below, above = ratios.detach() < low, ratios.detach() > high
    return Surrogate(-advantages * weights * log_probs, below, above, torch.zeros_like(below))


def total_variation_loss(
    log_probs: Tensor,
    anchor_log_probs: Tensor,
    ratios: Tensor,
    advantages: Tensor,
    clipping: Clipping,
) -> Surrogate:
    """-A r, without tokens whose update leads further out of a region of total variation (DPPO with
    the binary approximation, arXiv:2602.04879).

    The variation of a sampled token is ``|p - p_anchor|``. A token is left out if p exceeds
    p_anchor by more than ``clipping.high`` and A > 0, or is below it by more than ``clipping.low``
    and A < 0.
    """
    variation = (log_probs.exp() - anchor_log_probs.exp()).detach()
    above = (variation > clipping.high) & (advantages > 0)
    below = (variation < -clipping.low) & (advantages < 0)
    losses = torch.where(above | below, 0.0, -advantages * ratios)
    return Surrogate(losses, below, above, torch.zeros_like(below))


def soft_gated_loss(
    ratios: Tensor, advantages: Tensor, temperatures: tuple[float, float]
) -> Surrogate:
    """-A f(r) with f(r) = 4 / t * sigmoid(t (r - 1)), whose slope is 1 at r = 1 and falls to 0 far
    from it (SAPO, arXiv:2511.20347). ``temperatures`` t are those of positive and of negative
    advantages."""
    positive, negative = map(ratios.new_tensor, temperatures)
    temperature = torch.where(advantages > 0, positive, negative)
    gates = 4.0 / temperature * torch.sigmoid(temperature * (ratios - 1.0))
    none = torch.zeros_like(ratios, dtype=torch.bool)
    return Surrogate(-advantages * gates, none, none, none)


def covariant_tokens(
    log_probs: Tensor, advantages: Tensor, settings: Covariance, objective: Objective
) -> Tensor:
    """The tokens of a batch (m,) that `clip_cov` and `kl_cov` treat apart, by the covariance
    (log p - mean log p) (A - mean A) over the batch (Cui et al. 2025, arXiv:2505.22617).

    ``settings.share`` of them, one at least: those of the largest covariance (KL-Cov), or some
    between the bounds, drawn alike in all processes (Clip-Cov).
    """
    selected = torch.zeros(len(log_probs), dtype=torch.bool, device=log_probs.device)
    if not len(log_probs):
        return selected
    covariances = (log_probs - log_probs.mean()) * (advantages - advantages.mean())
    count = max(1, int(settings.share * len(log_probs)))
    if objective is Objective.KL_COV:
        selected[covariances.topk(count).indices] = True
        return selected
    inside = (covariances > settings.low) & (covariances < settings.high)
    candidates = inside.nonzero()[:, 0]
    generator = torch.Generator().manual_seed(len(log_probs))
    drawn = torch.randperm(len(candidates), generator=generator)[:count]
    selected[candidates[drawn.to(candidates.device)]] = True
    return selected


def clip_covariance_loss(
    ratios: Tensor, advantages: Tensor, clipping: Clipping, selected: Tensor
) -> Surrogate:
    """The clipped surrogate without the ``selected`` tokens (Clip-Cov, arXiv:2505.22617)."""
    clipped = clipped_surrogate_loss(ratios, advantages, clipping)
    return replace(clipped, losses=torch.where(selected, 0.0, clipped.losses))


def penalized_covariance_loss(
    log_probs: Tensor,
    anchor_log_probs: Tensor,
    ratios: Tensor,
    advantages: Tensor,
    selected: Tensor,
    coefficient: float,
) -> Surrogate:
    """-A r, plus ``coefficient * |log p - log p_anchor|`` for the ``selected`` tokens (KL-Cov,
    arXiv:2505.22617)."""
    drift = coefficient * (log_probs - anchor_log_probs).abs()
    none = torch.zeros_like(selected)
    losses = -advantages * ratios + torch.where(selected, drift, 0.0)
    return Surrogate(losses, none, none, none)
