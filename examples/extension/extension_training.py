"""An advantage and an objective of a training, for the package of `extension_example`.

advantage: extension, advantage_extension: over-median
loss: {objective: extension, extension: capped-reinforce, tis_cap: null}

A module of its own: the environment that trains has neither the packages of rewards and tools, nor
does that of the gateway have torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

MOST = 2.0
"""The largest weight of a token."""


def over_median(*, rewards: "Tensor", groups: "Tensor") -> "Tensor":
    """How much better a sample is than the median of its group: one lucky sample does not make the
    others look bad."""
    advantages = rewards.clone()
    for group in groups.unique():
        own = groups == group
        advantages[own] -= rewards[own].quantile(0.5)
    return advantages


def capped_reinforce(
    *, log_probs: "Tensor", ratios: "Tensor", advantages: "Tensor", **_: Any
) -> "Tensor":
    """REINFORCE, in which a token has its importance ratio as its weight, `MOST` at most."""
    return -advantages * ratios.detach().clamp(max=MOST) * log_probs
