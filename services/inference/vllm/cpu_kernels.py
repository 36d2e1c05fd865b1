"""Mends three of vLLM's kernels for hosts without GPU, in its own process.

vLLM 0.32 repeats the temperature and the filters of a sequence for each of its drafted tokens. Its
kernel for CPUs does so in a copy of whole numbers, and leaves the result as it was allocated:
drafts are accepted, and log-probabilities told, at an arbitrary temperature.

It rotates queries and keys by their positions. Its kernel for CPUs takes all heads of a token for
one if they come as (tokens, heads, size), as those of latent attention and of LFM2 do: such models
answer as if they had other weights.

It chooses the experts of a token. Its router for CPUs leaves out the bias that corrects the choice
where experts have no groups, as in ERNIE 4.5, and knows no sigmoid there, as in MiniMax M2: the
former answers with other experts, and the latter not at all.

GPUs have kernels of their own, and nothing is changed there.
"""

from typing import Any

from torch import Tensor
from vllm import _custom_ops as custom_ops
from vllm.model_executor.layers.fused_moe.router import cpu_router
from vllm.v1.sample import rejection_sampler

_rotate = custom_ops.rotary_embedding
_route = cpu_router.CPURouter._compute_routing


def mend_kernels() -> None:
    """Replace vLLM's functions; before an engine is made."""
    rejection_sampler.expand_batch_to_tokens = repeated
    custom_ops.rotary_embedding = rotate
    cpu_router.CPURouter._compute_routing = route


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


def route(
    self: Any, hidden_states: Tensor, router_logits: Tensor, *types: object, **inputs: object
) -> tuple[Tensor, Tensor]:
    """The weights and the numbers (tokens, experts of a token) of the chosen experts."""
    has_bias = self.e_score_correction_bias is not None
    is_plain = not self.use_grouped_topk and self.custom_routing_function is None
    if is_plain and (
        self.scoring_func == "sigmoid" or (self.scoring_func == "softmax" and has_bias)
    ):
        chosen: tuple[Tensor, Tensor] = cpu_router._grouped_topk(
            router_logits,
            self.top_k,
            self.renormalize,
            num_expert_group=1,
            topk_group=1,
            scoring_func=self.scoring_func,
            routed_scaling_factor=self.routed_scaling_factor,
            e_score_correction_bias=self.e_score_correction_bias,
        )
        return chosen
    routed: tuple[Tensor, Tensor] = _route(self, hidden_states, router_logits, *types, **inputs)
    return routed
