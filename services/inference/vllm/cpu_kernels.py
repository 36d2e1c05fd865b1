"""Mends two of vLLM's kernels for hosts without GPU, in its own process.

vLLM 0.32 repeats the temperature and the filters of a sequence for each of its drafted tokens. Its
kernel for CPUs does so in a copy of whole numbers, and leaves the result as it was allocated:
drafts are accepted, and log-probabilities told, at an arbitrary temperature.

It rotates queries and keys by their positions. Its kernel for CPUs takes all heads of a token for
one if they come as (tokens, heads, size), as those of latent attention and of LFM2 do: such models
answer as if they had other weights.

GPUs have kernels of their own, and nothing is changed there.
"""

from torch import Tensor
from vllm import _custom_ops as custom_ops
from vllm.v1.sample import rejection_sampler

_rotate = custom_ops.rotary_embedding


def mend_kernels() -> None:
    """Replace vLLM's functions; before an engine is made."""
    rejection_sampler.expand_batch_to_tokens = repeated
    custom_ops.rotary_embedding = rotate


def repeated(
    x: Tensor, cu_num_tokens: Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Tensor:
    """The values ``x`` (b,) of b sequences for each of their tokens (n,), whose cumulative counts
    are ``cu_num_tokens`` (b,); ``replace_from`` becomes ``replace_to``."""
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    values = x.masked_fill(x == replace_from, replace_to)
    return values.repeat_interleave(counts, output_size=num_tokens)


def rotate(positions: Tensor, query: Tensor, key: Tensor | None, *settings: object) -> None:
    """Rotate ``query`` and ``key`` in place, (tokens, heads * size) or (tokens, heads, size)."""
    states = [each for each in (query, key) if each is not None]
    flat = [each.flatten(1) for each in states]
    _rotate(positions, flat[0], flat[1] if key is not None else None, *settings)
    for each, rotated in zip(states, flat, strict=True):
        if rotated.data_ptr() != each.data_ptr():
            each.copy_(rotated.view_as(each))
