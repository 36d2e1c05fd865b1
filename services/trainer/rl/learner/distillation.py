"""Generalized knowledge distillation (GKD): local and remote teachers, and the objective.

Agarwal et al. 2024, On-Policy Distillation of Language Models, arXiv:2306.13649.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from services.contracts.training.policy_loss import Aggregation
from services.models.tokenizer_ids.id_map import IdMap
from services.trainer.forward.output_layer import Reader, Readings
from services.trainer.rl.learner.micro_batches import MicroBatch, TrainedTokens
from services.trainer.rl.learner.model import LanguageModel, LogprobReader
from services.trainer.rl.learner.update import Loss, MetricAccumulator, Passes
from services.trainer.rl.losses import generalized_jsd, with_remainder


class Teacher(Protocol):
    """Measures the divergence of a student."""

    def begin(self, tokens: TrainedTokens) -> None:
        """Start a new batch."""
        ...

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """A reader of the student's logits whose first result is the divergence."""
        ...


class LocalTeacher:
    """A model in this process: full distributions."""

    def __init__(self, model: LanguageModel, temperature: float, ids: IdMap | None = None) -> None:
        """``temperature`` softens both distributions. ``ids`` are those of the tokens that both
        have; None: the same in both."""
        self._model = model
        self._temperature = temperature
        self._ids = None if ids is None or ids.is_identity else MappedIds(ids)

    def begin(self, tokens: TrainedTokens) -> None:
        """Nothing to prepare."""

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """Run the teacher on a micro-batch; its logits are computed on demand."""
        ids, token_ids = self._ids, micro.token_ids
        if ids is not None:
            token_ids = ids.read(token_ids)
        with torch.no_grad():
            states = self._model.hidden(token_ids, micro.lengths)[micro.states]

        def read(logits: Tensor, part: slice) -> Readings:
            with torch.no_grad():
                taught = self._model.logits(states[part])
            if ids is None:
                # Models of one family pad their vocabularies to different sizes.
                common = min(logits.shape[-1], taught.shape[-1])
                logits, taught = logits[:, :common], taught[:, :common]
            else:
                logits, taught = ids.common(logits, taught)
            teacher = (taught / self._temperature).log_softmax(-1)
            student = (logits / self._temperature).log_softmax(-1)
            return (generalized_jsd(teacher, student, beta),)

        return read


class MappedIds:
    """The ids of a teacher that numbers its tokens otherwise than the student."""

    def __init__(self, ids: IdMap) -> None:
        self._student = torch.tensor(ids.student)
        self._teacher = torch.tensor(ids.teacher)

    def read(self, token_ids: Tensor) -> Tensor:
        """The teacher's ids (n,) of the student's.

        A row of the student's embeddings that belongs to no token, which an untrained model may
        write, is read as the teacher's first.
        """
        places = torch.searchsorted(self._student, token_ids.cpu())
        places.clamp_(max=len(self._student) - 1)
        known = self._student[places] == token_ids.cpu()
        return torch.where(known, self._teacher[places], 0).to(token_ids.device)

    def common(self, student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """The logits (c, k) of the tokens that both have, in one order, of all the logits (c, v)
        of each."""
        return (
            student.index_select(-1, self._student.to(student.device)),
            teacher.index_select(-1, self._teacher.to(teacher.device)),
        )


@dataclass(frozen=True)
class TopKTargets:
    """The most probable tokens for each trained token, and their log-probabilities: (m, k)."""

    ids: Tensor
    log_probs: Tensor


class RemoteTopKTeacher:
    """A remote model: each sequence carries its `TopK`; all other tokens form one outcome."""

    def __init__(self) -> None:
        self._top = _no_tokens()

    def begin(self, tokens: TrainedTokens) -> None:
        """Collect the top-k of the sequences; raises ValueError if one has none."""
        self._top = top_tokens(tokens)

    def reader(self, micro: MicroBatch, beta: float) -> Reader:
        """Look up the teacher's distribution for a micro-batch."""
        device = micro.tokens.device
        chosen = micro.tokens.cpu()
        ids = self._top.ids[chosen].to(device)
        teacher = with_remainder(self._top.log_probs[chosen].to(device))

        def read(logits: Tensor, part: slice) -> Readings:
            student = with_remainder(logits.log_softmax(-1).gather(-1, ids[part]))
            return (generalized_jsd(teacher[part], student, beta),)

        return read


def top_tokens(tokens: TrainedTokens) -> TopKTargets:
    """The teacher's top-k for the trained tokens of a batch."""
    ids, log_probs = [], []
    for sequence, positions in zip(tokens.sequences, tokens.positions, strict=True):
        if not len(positions):
            continue
        if sequence.teacher is None:
            raise ValueError("a sequence has no probabilities of its teacher")
        ids.append(sequence.teacher.ids[positions.numpy() - 1])
        log_probs.append(sequence.teacher.log_probs[positions.numpy() - 1])
    if not ids:
        return _no_tokens()
    return TopKTargets(
        torch.from_numpy(np.concatenate(ids)).long(), torch.from_numpy(np.concatenate(log_probs))
    )


def _no_tokens() -> TopKTargets:
    return TopKTargets(torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, 1))


class Distillation:
    """The mean generalized JSD to a teacher over all trained tokens."""

    passes = Passes()
    aggregation = Aggregation.MEAN_OF_TOKENS

    def __init__(self, model: Any, teacher: Teacher, beta: float) -> None:
        self._model = model
        self._teacher = teacher
        self._beta = beta

    def begin(self, tokens: TrainedTokens, metrics: dict[str, float]) -> Loss:  # noqa: ARG002 - the interface of objectives
        """Let the teacher prepare the batch."""
        self._teacher.begin(tokens)
        return _BatchLoss(self._model, self._teacher, self._beta)


@dataclass(frozen=True)
class _BatchLoss:
    """The loss of a batch, one micro-batch at a time."""

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

        (divergences, log_probs, entropies), _ = self.model(
            micro.token_ids, micro.lengths, micro.states, read
        )
        loss = (weights * divergences).sum()
        accumulator.part("loss", loss)
        accumulator.mean("log_prob_mean", log_probs)
        accumulator.mean("entropy", entropies)
        return loss
