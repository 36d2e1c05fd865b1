"""Models to measure: random weights of published shapes. Memory and speed do not depend on values,
so nothing is downloaded."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.support.models.tiny_parts import build_tokenizer

_QWEN: dict[str, Any] = {"model_type": "qwen2", "max_position_embeddings": 32_768}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        **{"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 704},
        **{"vocab_size": 8192, "tie_word_embeddings": False},
    },
    "smollm2-135m": {
        **{"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30},
        **{"num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536},
        **{"vocab_size": 49_152, "tie_word_embeddings": True, "max_position_embeddings": 8192},
    },
    "qwen2.5-0.5b": {
        **{**_QWEN, "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14},
        **{"num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151_936},
        **{"tie_word_embeddings": True},
    },
    "qwen2.5-1.5b": {
        **{**_QWEN, "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12},
        **{"num_key_value_heads": 2, "intermediate_size": 8960, "vocab_size": 151_936},
        **{"tie_word_embeddings": True},
    },
    "qwen2.5-7b": {
        **{**_QWEN, "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28},
        **{"num_key_value_heads": 4, "intermediate_size": 18_944, "vocab_size": 152_064},
        **{"tie_word_embeddings": False},
    },
}


def make_model(name: str, folder: Path) -> Path:
    """Write a model of a known shape, in bfloat16, with a tokenizer; returns its folder.

    Any other name is the folder of a model.
    """
    if name not in SHAPES:
        return Path(name)
    settings = SHAPES[name]
    tokenizer = build_tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = AutoConfig.for_model(**settings, **ends)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
