"""Last hidden states of several sequences at once: without padding where the model can do it.

The sequences are then packed into a single row. transformers looks up attention and
masks by name. The two names that are registered here wrap its own: they give it each sequence by
itself, runs of sequences of one length as a batch. So a packed row computes what its sequences do
alone, under any mask (sliding windows, chunks), and nothing between them. Written for transformers
5.19.
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
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

PROBE = (6, 9, 4, 4)
"""Lengths of the sequences that a model is tried with."""
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""Of the largest hidden state: rounding stays below it, a neighbor's influence does not."""


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


def pack_attention(model: Any, *, tried: bool = False) -> str | None:
    """Make a transformers model attend within each sequence of a packed row.

    It is tried with short sequences, unless it is known to do it (``tried``).

    Returns why it cannot be given packed rows, and is then as it was: it has no attention that can
    be exchanged, or tokens of one sequence change the hidden states of another. Recurrent layers
    and convolutions do so, where the library has no boundaries for them.
    """
    before = model.config._attn_implementation
    problem = _unexchangeable(model)
    if problem is None and not tried:
        alone = _alone(model)
        model.set_attn_implementation(PACKED[before])
        problem = _difference(model, alone)
    if problem is None:
        model.set_attn_implementation(PACKED[before])
    elif model.config._attn_implementation != before:
        model.set_attn_implementation(before)
    return problem


def _unexchangeable(model: Any) -> str | None:
    """Why the attention of a model cannot be replaced, or not be tried."""
    attention, kind = model.config._attn_implementation, type(model).__name__
    if attention not in PACKED:
        return f"{kind} computes attention as {attention}"
    if not model._can_set_attn_implementation():
        return f"the attention of {kind} cannot be exchanged"
    return None


def _difference(model: Any, alone: Tensor) -> str | None:
    """Why packed rows are not what their sequences are ``alone``."""
    kind = type(model).__name__
    try:
        packed = _packed(model)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        return f"{kind} takes no packed rows: {type(error).__name__}"
    tolerance = TOLERANCE.get(alone.dtype, TOLERANCE[torch.bfloat16])
    difference = (packed.float() - alone.float()).abs().max()
    if difference > tolerance * alone.float().abs().max():
        return f"sequences in one row influence each other in {kind}"
    return None


def trunk_of(model: Any) -> Any:
    """A causal transformers model without its output layer.

    The name that ``base_model`` looks for is not that of every family's attribute.
    """
    trunk = model.base_model
    if trunk is not model:
        return trunk
    inner = (each for each in model.children() if isinstance(each, PreTrainedModel))
    return next(inner, model)


def packed_states(trunk: Any, token_ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """Last hidden states (n, h) of the sequences ``token_ids`` (n,) of these lengths, from a model
    without its head that takes packed rows."""
    with packed_lengths(lengths):
        found = trunk(
            input_ids=token_ids[None],
            # Otherwise the library would look for sequences itself, and count chunks from the row's
            # beginning.
            attention_mask=torch.ones_like(token_ids)[None],
            position_ids=positions(lengths, token_ids.device),
            use_cache=False,
        )
    states: Tensor = found.last_hidden_state[0]
    return states


def padded_states(trunk: Any, token_ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """As `packed_states`, from any causal model.

    Rows are right-padded and given without an attention mask: under causal attention the padding
    changes nothing.
    """
    rows = torch.nn.utils.rnn.pad_sequence(token_ids.split(list(lengths)), batch_first=True)
    states = trunk(input_ids=rows, use_cache=False).last_hidden_state
    return torch.cat([row[:length] for row, length in zip(states, lengths, strict=True)])


def _probe(model: Any) -> Tensor:
    embeddings = model.get_input_embeddings().weight
    return torch.arange(1, sum(PROBE) + 1, device=embeddings.device) % len(embeddings)


def _packed(model: Any) -> Tensor:
    """The hidden states of the probe's sequences in one row."""
    with torch.no_grad(), evaluating(model):
        return packed_states(trunk_of(model), _probe(model), PROBE)


def _alone(model: Any) -> Tensor:
    """The hidden states of the probe's sequences, each by itself."""
    trunk = trunk_of(model)
    with torch.no_grad(), evaluating(model):
        rows = [each[None] for each in _probe(model).split(list(PROBE))]
        parts = [trunk(input_ids=each, use_cache=False) for each in rows]
    return torch.cat([each.last_hidden_state[0] for each in parts])


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Within it, a model has no dropout."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
