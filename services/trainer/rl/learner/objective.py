"""What an update needs of the method that is trained by."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from services.contracts.online import Aggregation
from services.trainer.rl.learner.micro_batches import MicroBatch
from services.trainer.rl.learner.tally import Tally
from services.trainer.rl.learner.trained_tokens import TrainedTokens


@dataclass(frozen=True)
class Passes:
    """How often an update goes over its batch, and in how many optimiser steps each time."""

    epochs: int = 1
    mini_batches: int = 1

    @property
    def steps(self) -> int:
        """Optimiser steps of an update."""
        return self.epochs * self.mini_batches


class Loss(Protocol):
    """The loss on one batch."""

    def __call__(self, micro: MicroBatch, weights: Tensor, tally: Tally) -> Tensor:
        """The part of a micro-batch in the loss: its tokens' losses times ``weights`` (m,)."""
        ...


class Objective(Protocol):
    """A way of learning."""

    passes: Passes
    aggregation: Aggregation

    def begin(self, tokens: TrainedTokens, figures: dict[str, float]) -> Loss:
        """Look at a new batch, before the weights change; adds to its ``figures``."""
        ...
