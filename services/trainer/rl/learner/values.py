"""Critics: what is still to be expected after a token."""

from typing import Any

import torch
from torch import Tensor, nn

from services.trainer.rl.learner.language_model import last_states


class Critic(nn.Module):  # type: ignore[misc]
    """A value head on a trunk of its own, or on the policy's.

    The head begins at zero, so that the first values are 0 whatever the trunk says.
    """

    def __init__(self, hidden_size: int, trunk: Any | None = None) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(hidden_size, 1, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, token_ids: Tensor, policy_states: Tensor, places: Tensor) -> Tensor:
        """Values at ``places`` (p,) of the flattened rows; ``policy_states`` (b * n, h)."""
        states = policy_states if self.trunk is None else last_states(self.trunk, token_ids)
        return self.head(states[places].float())[:, 0].float()
