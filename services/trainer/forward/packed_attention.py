"""Attention within each of several sequences that lie one behind the other in a single row.

transformers looks up attention and masks by name. The two names that are registered here wrap its
own: they give it each sequence by itself, runs of sequences of one length as a batch. So a packed
row computes what its sequences do alone, under any mask (sliding windows, chunks), and nothing
between them. Written for transformers 5.19.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@dataclass(frozen=True)
class Run:
    """Neighboring sequences of one length: ``count`` of them, from the token ``start`` on."""

    start: int
    length: int
    count: int

    def of(self, states: Tensor) -> Tensor:
        """Its part of ``states`` (1, h, n, d), as a batch (count, h, length, d)."""
        part = states[0, :, self.start : self.start + self.length * self.count]
        return part.unflatten(1, (self.count, self.length)).transpose(0, 1)


@dataclass(frozen=True)
class PackedMask:
    """Stands in for a mask: the sequences of the row, and the mask of each length (None: causal).

    It travels through the model as masks do, so that recomputed layers find it again.
    """

    runs: tuple[Run, ...]
    of_length: Mapping[int, Tensor | None]


_lengths: ContextVar[tuple[int, ...] | None] = ContextVar("lengths", default=None)


@contextmanager
def packed_lengths(lengths: Sequence[int]) -> Iterator[None]:
    """Within it, masks are made for rows that hold sequences of these lengths."""
    token = _lengths.set(tuple(lengths))
    try:
        yield
    finally:
        _lengths.reset(token)


def positions(lengths: Sequence[int], device: torch.device) -> Tensor:
    """The position of each token in its sequence: (1, n)."""
    return torch.cat([torch.arange(each, device=device) for each in lengths])[None]


def runs_of(lengths: Sequence[int]) -> tuple[Run, ...]:
    """The sequences of a row, neighbors of one length together."""
    runs: list[Run] = []
    start = 0
    for length, group in groupby(lengths):
        count = len(list(group))
        runs.append(Run(start, length, count))
        start += length * count
    return tuple(runs)


def _masked(wrapped: str) -> Callable[..., Any]:
    """A function that makes the masks of packed rows, and all others as ``wrapped`` does."""

    def mask(**settings: Any) -> Any:
        make = ALL_MASK_ATTENTION_FUNCTIONS[wrapped]
        lengths = _lengths.get()
        if lengths is None:
            return make(**settings)
        settings["attention_mask"] = None  # nothing is padding
        of_length = {
            each: make(**{**settings, "batch_size": 1, "q_length": each, "kv_length": each})
            for each in set(lengths)
        }
        return PackedMask(runs_of(lengths), of_length)

    return mask


def _attended(wrapped: str) -> Callable[..., Any]:
    """A function that attends in packed rows, and in all others as ``wrapped`` does."""

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **settings: Any
    ) -> tuple[Tensor, None]:
        eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        compute: Any = ALL_ATTENTION_FUNCTIONS.get_interface(wrapped, eager)
        if not isinstance(attention_mask, PackedMask):
            result: tuple[Tensor, None] = compute(
                module, query, key, value, attention_mask, **settings
            )
            return result
        parts = [
            compute(
                module,
                *(run.of(each) for each in (query, key, value)),
                attention_mask.of_length[run.length],
                **settings,
            )[0].flatten(0, 1)
            for run in attention_mask.runs
        ]
        return torch.cat(parts)[None], None

    return attend


def register(wrapped: str) -> str:
    """Register the wrapper of an attention implementation; returns its name."""
    name = f"packed_{wrapped}"
    AttentionInterface.register(name, _attended(wrapped))
    AttentionMaskInterface.register(name, _masked(wrapped))
    return name


PACKED = {wrapped: register(wrapped) for wrapped in ("sdpa", "eager")}
"""Names of the wrappers, by those of the implementations that they wrap."""
