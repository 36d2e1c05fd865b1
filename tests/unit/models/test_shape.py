"""Sizes of models from their published configurations."""

from typing import Any

import pytest

from services.models.capacity.shape import model_shape

LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
QWEN_2_5_HALF_B = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
QWEN_2_5_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
MIXTRAL_8X7B = LLAMA_3_8B | {"model_type": "mixtral", "num_local_experts": 8, "vocab_size": 32000}
GPT_2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50257,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA_3_8B, 8_030_261_248),
        (MIXTRAL_8X7B, 46_702_792_704),
        (QWEN_2_5_HALF_B, 494_032_768 - 24 * (896 + 128 + 128)),  # less the biases
        ({"text_config": LLAMA_3_8B, "vision_config": {"hidden_size": 1280}}, 8_030_261_248),
    ],
)
def test_the_number_of_weights_is_the_published_one(
    config: dict[str, Any], parameters: int
) -> None:
    shape = model_shape(config)

    assert shape is not None
    assert shape.parameters == parameters


def test_a_family_with_two_matrices_per_feed_forward_layer_is_counted_so() -> None:
    shape = model_shape(GPT_2)

    assert shape is not None
    assert shape.parameters == 50257 * 768 + 12 * (4 * 768**2 + 2 * 768 * 3072) + 25 * 768


@pytest.mark.parametrize(
    "config",
    [{}, {"model_type": "mamba"}, LLAMA_3_8B | {"kv_lora_rank": 512}, {"hidden_size": "large"}],
)
def test_a_configuration_of_unknown_layers_has_no_shape(config: dict[str, Any]) -> None:
    assert model_shape(config) is None


@pytest.mark.parametrize(
    ("config", "inner"),
    [
        (LLAMA_3_8B, 14336),
        (MIXTRAL_8X7B, 2 * 14336),  # of eight experts two are read
        (
            LLAMA_3_8B | {"num_experts": 8, "num_experts_per_tok": 4, "n_shared_experts": 1},
            5 * 14336,
        ),
        (GPT_2, 4 * 768),
    ],
)
def test_a_token_runs_through_the_experts_that_it_is_routed_to(
    config: dict[str, Any], inner: int
) -> None:
    shape = model_shape(config)

    assert shape is not None
    assert shape.inner == inner
    assert shape.gated is (config is not GPT_2)
