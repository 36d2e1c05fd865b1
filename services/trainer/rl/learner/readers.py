"""What is read of logits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.trainer.rl.learner.language_model import Readings


@dataclass(frozen=True)
class SampledTokens:
    """Reads the log-probabilities of ``targets`` (m,) and the entropies, at a temperature.

    Entropies have a gradient only where there is a bonus for them.
    """

    targets: Tensor
    temperature: float = 1.0
    entropy_gradient: bool = False

    def __call__(self, logits: Tensor, part: slice) -> Readings:
        """(log-probabilities, entropies), each (c,)."""
        if self.temperature != 1.0:
            logits = logits / self.temperature
        everywhere = logits.log_softmax(-1)
        log_probs = everywhere.gather(-1, self.targets[part, None])[:, 0]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.entropy_gradient):
            entropies = -(everywhere.exp() * everywhere).sum(-1)
        return log_probs, entropies
