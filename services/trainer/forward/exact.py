"""A transformers model that computes with the kernels of the engine that samples from it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from services.contracts.errors import InvalidRequest
from services.inference.exact import kernels
from services.trainer.forward.packing import PACKED, register

EXACT = "exact"
"""Its name among the attention implementations of transformers."""
FIELD = "method"


class ExactLinear(nn.Linear):  # type: ignore[misc]  # torch is untyped here
    """A linear layer whose rows do not depend on each other."""

    def forward(self, states: Tensor) -> Tensor:
        return kernels.linear(states, self.weight, self.bias)


class _Attention(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """The engine's attention, with the gradient of torch's own."""

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        context.save_for_backward(query, key, value)
        context.scale = scale
        ends = torch.full((len(query),), query.shape[2])
        keys, values = kernels.in_blocks(key), kernels.in_blocks(value)
        return kernels.attention(query, keys, values, ends, scale)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            inputs = [each.detach().requires_grad_() for each in context.saved_tensors]
            attended = functional.scaled_dot_product_attention(
                *inputs, is_causal=True, scale=context.scale, enable_gqa=True
            )
        return *torch.autograd.grad(attended, inputs, gradient), None


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in the form in which transformers asks for it."""
    if attention_mask is not None or sliding_window or softcap or dropout:
        raise InvalidRequest(
            f"exact_on_policy is for plain causal attention, which {type(module).__name__} has not",
            param="model",
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _Attention.apply(query, key, value, scale).transpose(1, 2), None


def compute_exactly(model: Any) -> None:
    """Make a causal transformers model compute as the engine does."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = ExactLinear  # keeps its parameters, their names, and what ties them
    model.set_attn_implementation(EXACT)


def in_whole_rows(token_ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
    """Packed sequences ``token_ids`` (n,), with a last one that fills them up to whole rows."""
    missing = kernels.missing_rows(len(token_ids))
    if not missing:
        return token_ids, lengths
    return functional.pad(token_ids, (0, missing)), (*lengths, missing)


AttentionInterface.register(EXACT, _attend)
AttentionMaskInterface.register(EXACT, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
PACKED[EXACT] = register(EXACT)
