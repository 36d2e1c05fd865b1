"""Sequences in one row, against the same sequences padded, for families of different attention."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from services.trainer.forward.packing import (
    pack_attention,
    packed_states,
    padded_states,
    trunk_of,
)

LENGTHS = (11, 7, 7, 2, 9, 1)
SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}


def built(model_type: str, **changes: Any) -> Any:
    torch.manual_seed(2)
    config = AutoConfig.for_model(model_type, **{**SMALL, **changes})
    return AutoModelForCausalLM.from_config(config)


def learned(model: Any, compute: Any) -> tuple[Tensor, list[Tensor]]:
    """The hidden states, and the gradients of a loss of them."""
    token_ids = (torch.arange(sum(LENGTHS)) * 31) % SMALL["vocab_size"]
    model.zero_grad()
    states = compute(trunk_of(model), token_ids, LENGTHS)
    states.pow(2).mean().backward()
    return states, [each.grad for each in trunk_of(model).parameters() if each.grad is not None]


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("qwen3", {}),
        ("mistral", {"sliding_window": 3}),
        ("gemma3_text", {"sliding_window": 3}),
        ("gpt_oss", {"sliding_window": 3, **EXPERTS}),
        ("llama4_text", {"attention_chunk_size": 4, "intermediate_size_mlp": 48, **EXPERTS}),
    ],
)
@pytest.mark.parametrize("recomputed", [False, True], ids=["stored", "recomputed"])
def test_packed_sequences_have_the_states_and_gradients_of_padded_ones(
    model_type: str, changes: dict[str, Any], recomputed: bool
) -> None:
    model = built(model_type, **changes)
    if recomputed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    expected, gradients = learned(model, padded_states)

    assert pack_attention(model) is None
    states, found = learned(model, packed_states)

    torch.testing.assert_close(states, expected, rtol=1e-6, atol=2e-6)
    assert len(found) == len(gradients)
    for one, other in zip(found, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model_type", "changes", "reason"),
    [
        ("bloom", {"n_head": 4, "n_layer": 2}, "the attention of BloomForCausalLM cannot be"),
        ("mamba", {"state_size": 8}, "MambaForCausalLM"),
        ("lfm2", {"layer_types": ["conv", "full_attention"]}, "influence each other in Lfm2"),
    ],
)
def test_a_model_that_takes_no_packed_rows_is_left_as_it_was(
    model_type: str, changes: dict[str, Any], reason: str
) -> None:
    model = built(model_type, **changes)
    before = model.config._attn_implementation
    expected, _ = learned(model, padded_states)

    assert reason in (pack_attention(model) or "")

    assert model.config._attn_implementation == before
    torch.testing.assert_close(learned(model, padded_states)[0], expected)
