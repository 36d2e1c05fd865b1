"""Scoring a whole batch without a gradient."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from services.trainer.rl.learner.micro_batches import TrainedTokens, micro_batches
from services.trainer.rl.learner.model import LogprobReader
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.sequences import Batch, TrainingSequence


@dataclass(frozen=True)
class Scores:
    """``log_probs`` of the trained tokens (m,), and the values before them (m,), 0 without a
    critic. On the device, in all processes."""

    log_probs: Tensor
    values: Tensor


class BatchScorer:
    """Scores with a wrapped model; each process computes its share."""

    def __init__(self, model: Any, processes: ProcessGroup, limit: int) -> None:
        """``limit`` bounds the tokens of a forward pass."""
        self._model = model
        self._processes = processes
        self._limit = limit

    @property
    def device(self) -> torch.device:
        """The device of the scores."""
        return self._processes.device

    def score(self, tokens: TrainedTokens, temperature: float) -> Scores:
        """Score the tokens of a batch under the current weights."""
        processes = self._processes
        scores = torch.zeros(2, tokens.count, device=processes.device)
        own = micro_batches(
            tokens,
            range(len(tokens.sequences)),
            limit=self._limit,
            rank=processes.rank,
            processes=processes.world_size,
            device=processes.device,
        )
        self._model.eval()
        with torch.no_grad():
            for micro in own:
                read = LogprobReader(micro.targets, temperature)
                (log_probs, _), values = self._model(micro.token_ids, micro.states, read)
                if not micro.real:
                    continue
                scores[0, micro.tokens] = log_probs
                if values is not None:
                    scores[1, micro.tokens] = values
        processes.sum(scores)
        return Scores(scores[0], scores[1])


def sequence_log_probs(
    score: Callable[[TrainedTokens], Tensor], token_ids: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of every token after the first, given a scoring function."""
    tokens = TrainedTokens.of(Batch(tuple(_all_trained(each) for each in token_ids)))
    flat = score(tokens)
    return [part.tolist() for part in flat.split(tokens.lengths.tolist())]


def _all_trained(token_ids: Sequence[int]) -> TrainingSequence:
    count = len(token_ids)
    return TrainingSequence(
        token_ids=np.asarray(token_ids, np.int32),
        mask=np.arange(count) > 0,
        sampler_log_probs=np.zeros(count, np.float32),
        policy_versions=np.full(count, -1, np.int32),
    )


class Reference:
    """The frozen model that the KL penalty refers to: a copy, or the policy with its adapter
    disabled."""

    def __init__(self, scorer: BatchScorer, adapted: Any | None = None) -> None:
        """``scorer`` is the copy's; or, with the PEFT model ``adapted``, the policy's own."""
        self._scorer = scorer
        self._adapted = adapted

    def log_probs(self, tokens: TrainedTokens, temperature: float) -> Tensor:
        """Log-probabilities of the trained tokens (m,)."""
        switched_off = nullcontext() if self._adapted is None else self._adapted.disable_adapter()
        with switched_off:
            return self._scorer.score(tokens, temperature).log_probs
