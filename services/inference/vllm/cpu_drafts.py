"""Mends how vLLM verifies drafts on a host without GPU, in its own process.

vLLM 0.32 repeats the temperature and the filters of a sequence for each of its drafted tokens. Its
kernel for CPUs does so in a copy of whole numbers, and leaves the result as it was allocated:
drafts are accepted, and log-probabilities told, at an arbitrary temperature. GPUs have a kernel of
their own, and nothing is changed there.
"""

from torch import Tensor
from vllm.v1.sample import rejection_sampler


def mend_verification() -> None:
    """Replace vLLM's function; before an engine is made."""
    rejection_sampler.expand_batch_to_tokens = repeated


def repeated(
    x: Tensor, cu_num_tokens: Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Tensor:
    """The values ``x`` (b,) of b sequences for each of their tokens (n,), whose cumulative counts
    are ``cu_num_tokens`` (b,); ``replace_from`` becomes ``replace_to``."""
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    values = x.masked_fill(x == replace_from, replace_to)
    return values.repeat_interleave(counts, output_size=num_tokens)
