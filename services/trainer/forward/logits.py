"""Reading logits a part at a time, so that they never exist whole: (tokens, vocabulary) numbers are
most of the memory of a step of a small model.

A part is computed again for its gradient. Written out with torch rather than by Liger's kernels,
which need Triton and a GPU, and leave no entropies, divergences or most probable tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from services.models.capacity.training import LOGITS_AT_ONCE

MAX_LOGITS = LOGITS_AT_ONCE
"""Elements of a part: 256 MiB in float32."""

Readings = tuple[Tensor, ...]
Reader = Callable[[Tensor, slice], Readings]
"""Takes logits (c, v) of some of the states and the slice they are; returns tensors (c,)."""


def read_logits(
    states: Tensor, logits_of: Callable[[Tensor], Tensor], read: Reader, vocabulary: int
) -> Readings:
    """Read the logits of ``states`` (m, h), at most `MAX_LOGITS` at once; ``logits_of`` computes
    those of some, (c, v) in float32."""
    step = max(1, MAX_LOGITS // vocabulary)

    def part(some: Tensor, start: int) -> Readings:
        return read(logits_of(some), slice(start, start + len(some)))

    if len(states) <= step:
        return part(states, 0)
    parts = [
        checkpoint(part, some, step * number, use_reentrant=False)
        for number, some in enumerate(states.split(step))
    ]
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))
