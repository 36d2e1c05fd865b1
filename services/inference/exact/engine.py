"""Makes vLLM compute with `services.inference.exact.kernels`, in its own process.

The engine runs the transformers code of a model (``--model-impl transformers``), which the learner
runs too, with nothing fused: linear layers, attention and the cache of keys and values are replaced
here, and tokens are filled up to whole rows. Written for vLLM 0.32.
"""

from itertools import pairwise
from typing import Any

import vllm._custom_ops as custom_ops
from torch import Tensor
from torch.nn import functional
from vllm.model_executor.layers import utils as layers
from vllm.model_executor.models.transformers import base, fuser

from services.inference.exact import kernels

MAX_DECODED = 64
"""Sequences that are decoded at once, which bounds the memory of their scores."""


def compute_exactly() -> None:
    """Replace vLLM's operations; before an engine is made."""
    layers.dispatch_cpu_unquantized_gemm = use_linear
    custom_ops.cpu_attn_reshape_and_cache = store
    custom_ops.cpu_attention_with_kv_cache = attend
    fuser.FUSERS = (fuser.AttentionFuser,)
    base.Base.forward = in_whole_rows(base.Base.forward)


def use_linear(layer: Any, remove_weight: bool) -> None:  # noqa: ARG001 - as vLLM calls it
    """Multiply with a layer's own weights rather than with a packed copy."""
    layer.cpu_linear = kernels.linear


def in_whole_rows(forward: Any) -> Any:
    """A model's ``forward``, given tokens in multiples of `kernels.ROWS`."""

    def filled(
        self: Any,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        if input_ids is None or inputs_embeds is not None or positions.ndim != 1:
            raise ValueError("exact_on_policy is for models of text alone")
        count = len(positions)
        missing = (0, kernels.missing_rows(count))
        ids, places = functional.pad(input_ids, missing), functional.pad(positions, missing)
        states: Tensor = forward(self, ids, places, intermediate_tensors, None, **others)
        return states[:count]

    return filled


def store(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    isa: str,  # noqa: ARG001 - as vLLM calls it
    **scales: Any,  # noqa: ARG001 - as vLLM calls it
) -> None:
    """Put keys and values (t, k, d) into their slots of the caches (blocks, k, size, d); slots that
    are negative are none."""
    used = slot_mapping >= 0
    slots, size = slot_mapping[used].long(), key_cache.shape[2]
    for cache, states in ((key_cache, key), (value_cache, value)):
        cache[slots // size, :, slots % size] = states[: len(slot_mapping)][used]


def attend(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    output: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    scale: float,
    causal: bool,
    alibi_slopes: Tensor | None,
    sliding_window: int,
    block_table: Tensor,
    softcap: float,
    scheduler_metadata: Tensor,  # noqa: ARG001 - as vLLM calls it
    s_aux: Tensor | None,
    dynamic_causal: Tensor | None = None,
    **scales: Any,  # noqa: ARG001 - as vLLM calls it
) -> None:
    """Write the attention of ``query`` (t, h, d) into ``output``, sequence after sequence."""
    special = (alibi_slopes, s_aux, dynamic_causal)
    if not causal or sliding_window >= 0 or softcap or any(each is not None for each in special):
        raise ValueError("exact_on_policy is for plain causal attention")
    if key_cache.shape[2] != kernels.KEYS:
        raise ValueError(f"exact_on_policy needs a cache in blocks of {kernels.KEYS} tokens")
    starts, lengths, blocks = (each.tolist() for each in (query_start_loc, seq_lens, block_table))
    counts = [after - before for before, after in pairwise(starts)]
    decoded = [number for number, count in enumerate(counts) if count == 1]
    decoded.sort(key=lengths.__getitem__)
    for at in range(0, len(decoded), MAX_DECODED):
        batch = decoded[at : at + MAX_DECODED]
        tokens = [starts[number] for number in batch]
        output[tokens] = kernels.decoded_attention(
            query[tokens],
            key_cache,
            value_cache,
            [blocks[number] for number in batch],
            [lengths[number] for number in batch],
            scale,
        )
    for number, count in enumerate(counts):
        if count > 1:
            used = block_table[number, : -(-lengths[number] // kernels.KEYS)]
            part = slice(starts[number], starts[number] + count)
            queries, ends = query[part].transpose(0, 1)[None], seq_lens[number : number + 1]
            keys, values = key_cache[used][:, None], value_cache[used][:, None]
            found = kernels.attention(queries, keys, values, ends.long(), scale)
            output[part] = found[0].transpose(0, 1)
