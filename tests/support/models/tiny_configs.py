"""Configurations of tiny models of any family of transformers: its own, with small sizes.

Sizes are found by the names of their fields, so that a new family needs nothing here.
"""

import re
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

VOCABULARY = 256
LAYERS = 4
Sizes = tuple[tuple[str, int], ...]
_SIZES: Sizes = (
    (r"(padded_)?vocab_size|vocab_size_.*", VOCABULARY),
    (r"num_kv_shared_layers", 0),
    (r"token_budget", 16),
    (r"compress_ratio", 4),
    (r"num_dense_layers", 1),
    (r".*(num_.*layers|n_layers?|n_layer)$", LAYERS),
    (r".*(first_k_dense|num_dense_layers|num_.*mtp|nextn).*", 1),
    (r".*(num_key_value_heads|num_kv_heads|num_query_groups|n_kv_heads|kv_n_heads)$", 2),
    (r"mamba_n_heads|mamba_num_heads|n_mamba_heads", 8),
    (r".*(num_attention_heads|n_heads?|num_heads|num_(key|value)_heads)$", 4),
    (r".*(experts_per_tok(en)?|num_experts_per_tok|top_?k(_experts)?|moe_k|moe_topk)$", 2),
    (r".*(n_routed_experts|num_(local_)?experts|n_experts|moe_num_experts)$", 4),
    (r".*(n_group|topk_group|n_groups|num_expert_group)$", 1),
    (r".*(n_shared_experts|num_shared_experts|zero_expert_num)$", 1),
    (r".*(kv_lora_rank|q_lora_rank|o_lora_rank|lora_rank.*|rank)$", 16),
    (r"qk_head_dim|attention_head_dim", 32),
    (r"attention_hidden_size|mamba_d_ssm", 128),
    (r".*(qk_nope_head_dim|qk_rope_head_dim|v_head_dim|.*rotary_dim|rope_head_dim)$", 16),
    (r".*(head_dim|head_size|headdim|mamba_d_head|kv_channels)$", 16),
    (r".*(state_size|d_state)$", 16),
    (r".*(sliding_window|attention_chunk_size|local_window)$", 8),
    (r".*(intermediate_size.*|n_inner|ffn_dim|ffn_hidden.*|inner_dim)$", 96),
    (r".*(hidden_size|d_model|n_embd|embed_dim|word_embed_proj_dim|hidden_dim)$", 64),
)
"""Names of fields, and their small values; the first that matches counts."""
_NEEDED = (
    *("num_attention_heads", "num_key_value_heads", "num_experts_per_tok"),
    *("token_budget", "compress_ratio"),
)
"""Sizes that some families leave to their checkpoints."""
_OF_EVERY = frozenset(PreTrainedConfig().to_dict())
"""Fields that every configuration has."""
_LISTS = ("layer_types", "layers_block_type", "mlp_layer_types", "block_types")


def tiny_config(model_type: str, sizes: Sizes = ()) -> Any:
    """A tiny configuration of a family; ``sizes`` come before those of this module."""
    default = AutoConfig.for_model(model_type)
    return AutoConfig.for_model(model_type, **shrunken(default, (*sizes, *_SIZES)))


def shrunken(config: PreTrainedConfig, sizes: Sizes = _SIZES) -> dict[str, Any]:
    """The fields of a configuration that change."""
    changes: dict[str, Any] = {}
    fields = config.to_dict()
    for name, value in fields.items():
        if name.endswith("_token_id") and isinstance(value, list):
            changes[name] = [each % VOCABULARY for each in value]
        elif isinstance(value, dict) and isinstance(getattr(config, name, None), PreTrainedConfig):
            inner = getattr(config, name)
            own = {key: each for key, each in value.items() if key not in _OF_EVERY}
            changes[name] = {**own, **shrunken(inner, sizes)}
        elif name.endswith("_token_id") and isinstance(value, int):
            changes[name] = value % VOCABULARY
        elif "dropout" in name or "pdrop" in name:
            changes[name] = 0.0
        elif name == "layer_types" and value is None:
            changes[name] = ["full_attention"] * LAYERS
        elif _is_count(value) or (value is None and name in _NEEDED):
            if (small := _small(name, fields, sizes)) is not None:
                changes[name] = small
        elif isinstance(value, list) and (name in _LISTS or _of_layers(fields, value)):
            changes[name] = _shortened(value)
    return changes


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _small(name: str, fields: dict[str, Any], sizes: Sizes) -> int | None:
    small = next((value for pattern, value in sizes if re.fullmatch(pattern, name)), None)
    if name == "num_key_value_heads" and fields[name] == fields.get("num_attention_heads"):
        return _small("num_attention_heads", fields, sizes)
    if name == "num_heads" and "num_attention_heads" not in fields:
        return 8  # of a state space: twice the hidden size, in parts of 16
    if name == "head_dim" and "qk_rope_head_dim" in fields:
        return _small("qk_rope_head_dim", fields, sizes)
    value = fields[name]
    return min(value, small) if value and small is not None and small < LAYERS else small


def _of_layers(fields: dict[str, Any], value: list[Any]) -> bool:
    """Whether a list has an entry for each layer."""
    return len(value) == fields.get("num_hidden_layers")


def _shortened(value: list[Any]) -> list[Any]:
    """As many entries as there are layers, every kind among them."""
    kinds = list(dict.fromkeys(map(str, value)))
    firsts = sorted(next(n for n, each in enumerate(value) if str(each) == kind) for kind in kinds)
    kept = [value[place] for place in firsts][:LAYERS]
    return kept + [value[-1]] * (LAYERS - len(kept))
