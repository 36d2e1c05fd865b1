"""A batch as tensors over its trained tokens."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from services.trainer.rl.sequences import Batch, TrainingSequence


@dataclass(frozen=True)
class TrainedTokens:
    """The trained tokens of all sequences one after the other: m of s sequences.

    ``lengths`` (s,) and ``sequence_of`` (m,) say which belong to which sequence, ``starts`` (s,)
    where each begins; ``sampler_log_probs`` (m,). All on the CPU.
    """

    sequences: tuple[TrainingSequence, ...]
    places: tuple[Tensor, ...]
    lengths: Tensor
    starts: Tensor
    sequence_of: Tensor
    sampler_log_probs: Tensor

    @classmethod
    def of(cls, batch: Batch) -> "TrainedTokens":
        """Lay out a batch; raises ValueError where the first token of a sequence is to be
        learned, which nothing predicts."""
        sequences = batch.sequences
        if any(len(each.mask) and each.mask[0] for each in sequences):
            raise ValueError("the first token of a sequence cannot be trained on")
        places = tuple(torch.from_numpy(np.flatnonzero(each.mask)) for each in sequences)
        lengths = torch.tensor([len(each) for each in places], dtype=torch.long)
        sampled = [torch.from_numpy(each.sampler_log_probs[each.mask]) for each in sequences]
        return cls(
            sequences=sequences,
            places=places,
            lengths=lengths,
            starts=lengths.cumsum(0) - lengths,
            sequence_of=torch.arange(len(sequences)).repeat_interleave(lengths),
            sampler_log_probs=torch.cat([torch.zeros(0), *sampled]),
        )

    @property
    def count(self) -> int:
        """The number of trained tokens, m."""
        return len(self.sequence_of)

    def indices(self, sequence: int) -> Tensor:
        """Where the tokens of a sequence lie among all, in order."""
        start = int(self.starts[sequence])
        return torch.arange(start, start + int(self.lengths[sequence]))
