"""How the losses of tokens become one: as weights that are known before any loss is.

A loss is the sum of its tokens' losses times their weights. The weights are those of the whole
global batch, so that the sum is the same however the batch is cut into micro-batches and processes.
"""

import torch
from torch import Tensor

from services.contracts.online import Aggregation


def token_weights(lengths: Tensor, aggregation: Aggregation, max_length: int) -> Tensor:
    """The weight of each trained token of a global batch.

    ``lengths`` (s,) counts the trained tokens of its sequences; those without any do not count as
    sequences. ``max_length`` is the constant of `Aggregation.SEQUENCE_SUMS`. Returns (m,),
    float32.
    """
    tokens = lengths.sum().clamp(min=1)
    sequences = (lengths > 0).sum().clamp(min=1)
    match aggregation:
        case Aggregation.ALL_TOKENS:
            weights = torch.ones_like(lengths, dtype=torch.float64) / tokens
        case Aggregation.SEQUENCE_MEANS:
            weights = 1.0 / (lengths.clamp(min=1).double() * sequences)
        case Aggregation.SEQUENCE_SUMS:
            weights = torch.ones_like(lengths, dtype=torch.float64) / (sequences * max_length)
    return weights.repeat_interleave(lengths).float()
