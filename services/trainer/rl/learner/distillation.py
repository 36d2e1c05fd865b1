"""Learning a teacher's distribution (GKD)."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from services.contracts.online import Aggregation
from services.trainer.rl.learner.metrics import MetricAccumulator
from services.trainer.rl.learner.micro_batches import MicroBatch, TrainedTokens
from services.trainer.rl.learner.model import LanguageModel, LogprobReader, Reader, Readings
from services.trainer.rl.learner.update import Loss, Passes
from services.trainer.rl.losses.distillation import generalized_jsd, with_remainder


class Teacher(Protocol):
    """Measures how far a student is from it."""

    def begin(self, tokens: TrainedTokens) -> None:
        """Look at a new batch."""
        ...

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """What reads the divergence of a student's logits, as the first of the readings."""
        ...


class LocalTeacher:
    """A model in this process: whole distributions."""

    def __init__(self, model: LanguageModel, temperature: float) -> None:
        """``temperature`` softens the teacher's distribution and the student's."""
        self._model = model
        self._temperature = temperature

    def begin(self, tokens: TrainedTokens) -> None:
        """Nothing is to be looked up."""

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """Run the teacher on a micro-batch; its logits are computed when they are needed."""
        with torch.no_grad():
            states = self._model.hidden(micro.token_ids)[micro.states]

        def read(logits: Tensor, part: slice) -> Readings:
            with torch.no_grad():
                taught = self._model.logits(states[part])
            # Models of one family pad their vocabularies differently.
            common = min(logits.shape[-1], taught.shape[-1])
            teacher = (taught[:, :common] / self._temperature).log_softmax(-1)
            student = (logits[:, :common] / self._temperature).log_softmax(-1)
            return (generalized_jsd(teacher, student, beta),)

        return read


@dataclass(frozen=True)
class TopKTargets:
    """The most probable tokens at each trained token, and their log-probabilities: (m, k)."""

    ids: Tensor
    log_probs: Tensor


class DistantTeacher:
    """A model elsewhere: each sequence brings its `TopK`, and all other tokens are one."""

    def __init__(self) -> None:
        self._top = _no_tokens()

    def begin(self, tokens: TrainedTokens) -> None:
        """Take what the sequences bring; raises ValueError where one brings nothing."""
        self._top = top_tokens(tokens)

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """Look up what the teacher said of a micro-batch."""
        device = micro.tokens.device
        chosen = micro.tokens.cpu()
        ids = self._top.ids[chosen].to(device)
        teacher = with_remainder(self._top.log_probs[chosen].to(device))

        def read(logits: Tensor, part: slice) -> Readings:
            student = with_remainder(logits.log_softmax(-1).gather(-1, ids[part]))
            return (generalized_jsd(teacher[part], student, beta),)

        return read


def top_tokens(tokens: TrainedTokens) -> TopKTargets:
    """What teachers said of the trained tokens of a batch."""
    ids, log_probs = [], []
    for sequence, places in zip(tokens.sequences, tokens.places, strict=True):
        if not len(places):
            continue
        if sequence.teacher is None:
            raise ValueError("a sequence has no probabilities of its teacher")
        ids.append(sequence.teacher.ids[places.numpy() - 1])
        log_probs.append(sequence.teacher.log_probs[places.numpy() - 1])
    if not ids:
        return _no_tokens()
    return TopKTargets(
        torch.from_numpy(np.concatenate(ids)).long(), torch.from_numpy(np.concatenate(log_probs))
    )


def _no_tokens() -> TopKTargets:
    return TopKTargets(torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, 1))


class Distillation:
    """The mean of the generalised divergence from a teacher, over all trained tokens."""

    passes = Passes()
    aggregation = Aggregation.MEAN_OF_TOKENS

    def __init__(self, model: Any, teacher: Teacher, beta: float) -> None:
        self._model = model
        self._teacher = teacher
        self._beta = beta

    def begin(self, tokens: TrainedTokens, metrics: dict[str, float]) -> Loss:  # noqa: ARG002
        """Let the teacher look at the batch."""
        self._teacher.begin(tokens)
        return _BatchLoss(self._model, self._teacher, self._beta)


@dataclass(frozen=True)
class _BatchLoss:
    """The loss of a batch, micro-batch by micro-batch."""

    model: Any
    teacher: Teacher
    beta: float

    def __call__(
        self, micro: MicroBatch, weights: Tensor, accumulator: MetricAccumulator
    ) -> Tensor:
        """The weighted sum of the divergences."""
        divergence = self.teacher.reader(micro, self.beta)
        sampled = LogprobReader(micro.targets)

        def read(logits: Tensor, part: slice) -> Readings:
            with torch.no_grad():
                metrics = sampled(logits, part)
            return (*divergence(logits, part), *metrics)

        (divergences, log_probs, entropies), _, _ = self.model(
            micro.token_ids, micro.states, micro.ends, read
        )
        loss = (weights * divergences).sum()
        accumulator.part("loss", loss)
        accumulator.mean("log_prob_mean", log_probs)
        accumulator.mean("entropy", entropies)
        return loss
