"""Policy objectives beside PPO's clipped surrogate: pure functions of tensors.

All tensors are over trained tokens, (m,), as in `services.trainer.rl.losses`.
"""

import torch
from torch import Tensor

from services.trainer.rl.losses import Clipping, Surrogate


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
