"""Learning a teacher's distribution (GKD)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from services.contracts.online import Aggregation
from services.trainer.rl.learner.language_model import Readings
from services.trainer.rl.learner.micro_batches import MicroBatch
from services.trainer.rl.learner.objective import Loss, Passes
from services.trainer.rl.learner.readers import SampledTokens
from services.trainer.rl.learner.tally import Tally
from services.trainer.rl.learner.teachers import Teacher
from services.trainer.rl.learner.trained_tokens import TrainedTokens


class Distillation:
    """The mean of the generalised divergence from a teacher, over all trained tokens."""

    passes = Passes()
    aggregation = Aggregation.ALL_TOKENS

    def __init__(self, model: Any, teacher: Teacher, beta: float) -> None:
        self._model = model
        self._teacher = teacher
        self._beta = beta

    def begin(self, tokens: TrainedTokens, figures: dict[str, float]) -> Loss:  # noqa: ARG002
        """Let the teacher look at the batch."""
        self._teacher.begin(tokens)
        return _BatchLoss(self._model, self._teacher, self._beta)


@dataclass(frozen=True)
class _BatchLoss:
    """The loss of a batch, micro-batch by micro-batch."""

    model: Any
    teacher: Teacher
    beta: float

    def __call__(self, micro: MicroBatch, weights: Tensor, tally: Tally) -> Tensor:
        """The weighted sum of the divergences."""
        divergence = self.teacher.reader(micro, self.beta)
        sampled = SampledTokens(micro.targets)

        def read(logits: Tensor, part: slice) -> Readings:
            with torch.no_grad():
                figures = sampled(logits, part)
            return (*divergence(logits, part), *figures)

        (divergences, log_probs, entropies), _, _ = self.model(
            micro.token_ids, micro.states, micro.ends, read
        )
        loss = (weights * divergences).sum()
        tally.part("loss", loss)
        tally.mean("log_prob_mean", log_probs)
        tally.mean("entropy", entropies)
        return loss
