"""The sizes of a language model's layers, as its config.json gives them.

Names say nothing reliable about sizes, and weights may not be downloaded yet.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_UNGATED = frozenset(
    {"bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "mpt", "opt", "phi"}
    | {"starcoder2"}
)
"""Families whose feed-forward layer has two matrices instead of three."""

_UNSUPPORTED = ("kv_lora_rank", "ssm_cfg", "state_size", "is_encoder_decoder")
"""Keys of families with other layers: latent attention, state spaces, encoders."""


@dataclass(frozen=True)
class LinearShape:
    """A linear layer, and how often the model has it."""

    name: str
    inputs: int
    outputs: int
    count: int

    @property
    def parameters(self) -> int:
        """The weights of all of them."""
        return self.inputs * self.outputs * self.count


@dataclass(frozen=True)
class ModelShape:
    """A decoder: the width of its hidden states, its layers and their linear modules.

    ``embeddings`` counts the weights of input and output embeddings. ``inner`` is the width of the
    feed-forward layers that one token runs through, a mean over the layers.
    """

    hidden: int
    layers: int
    vocabulary: int
    embeddings: int
    inner: float
    modules: tuple[LinearShape, ...]

    @property
    def linear_parameters(self) -> int:
        """The weights of the layers' linear modules."""
        return sum(module.parameters for module in self.modules)

    @property
    def gated(self) -> bool:
        """Whether a feed-forward layer has a gate."""
        return any(module.name == "gate_proj" for module in self.modules)

    def width(self, name: str) -> int:
        """The outputs of the linear module of this name; 0 without one."""
        return next((module.outputs for module in self.modules if module.name == name), 0)

    @property
    def parameters(self) -> int:
        """All weights; biases are left out."""
        norms = (2 * self.layers + 1) * self.hidden
        return self.embeddings + norms + self.linear_parameters


def read_shape(folder: Path) -> ModelShape | None:
    """The shape of the model in a folder; None when its configuration cannot be read."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return model_shape(config) if isinstance(config, dict) else None


def model_shape(config: Mapping[str, Any]) -> ModelShape | None:
    """The shape in a configuration; None for a family whose layers are not known."""
    inner = config.get("text_config")
    settings = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
    if any(settings.get(key) for key in _UNSUPPORTED):
        return None
    hidden = _first(settings, "hidden_size", "n_embd", "d_model")
    layers = _first(settings, "num_hidden_layers", "n_layer", "n_layers")
    heads = _first(settings, "num_attention_heads", "n_head", "n_heads")
    vocabulary = _first(settings, "vocab_size")
    if hidden is None or layers is None or heads is None or vocabulary is None:
        return None
    matrices = 1 if settings.get("tie_word_embeddings") is True else 2
    return ModelShape(
        hidden=hidden,
        layers=layers,
        vocabulary=vocabulary,
        embeddings=matrices * vocabulary * hidden,
        inner=_inner(settings, hidden, layers),
        modules=(*_attention(settings, hidden, layers, heads), *_mlp(settings, hidden, layers)),
    )


def _attention(
    settings: Mapping[str, Any], hidden: int, layers: int, heads: int
) -> tuple[LinearShape, ...]:
    width = _first(settings, "head_dim") or hidden // heads
    keys = width * (_first(settings, "num_key_value_heads") or heads)
    return (
        LinearShape("q_proj", hidden, heads * width, layers),
        LinearShape("k_proj", hidden, keys, layers),
        LinearShape("v_proj", hidden, keys, layers),
        LinearShape("o_proj", heads * width, hidden, layers),
    )


def _inner(settings: Mapping[str, Any], hidden: int, layers: int) -> float:
    """The width of the feed-forward layers that one token runs through."""
    inner = _first(settings, "intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
    if _first(settings, "num_local_experts", "num_experts", "n_routed_experts") is None:
        return inner
    own = _first(settings, "moe_intermediate_size") or inner
    shared = _first(settings, "shared_expert_intermediate_size")
    shared = shared or own * (_first(settings, "n_shared_experts") or 0)
    chosen = _first(settings, "num_experts_per_tok", "num_experts_per_token", "moe_topk") or 2
    dense = min(layers, _first(settings, "first_k_dense_replace") or 0)
    return (dense * inner + (layers - dense) * (chosen * own + shared)) / layers


def _mlp(settings: Mapping[str, Any], hidden: int, layers: int) -> tuple[LinearShape, ...]:
    inner = _first(settings, "intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
    experts = _first(settings, "num_local_experts", "num_experts", "n_routed_experts")
    if experts is None:
        return _feed_forward(settings, hidden, inner, layers)
    own = _first(settings, "moe_intermediate_size") or inner
    shared = _first(settings, "shared_expert_intermediate_size")
    shared = shared or own * (_first(settings, "n_shared_experts") or 0)
    dense = min(layers, _first(settings, "first_k_dense_replace") or 0)
    sparse = layers - dense
    return (
        LinearShape("gate", hidden, experts, sparse),
        *_feed_forward(settings, hidden, own, sparse * experts),
        *(_feed_forward(settings, hidden, shared, sparse) if shared else ()),
        *(_feed_forward(settings, hidden, inner, dense) if dense else ()),
    )


def _feed_forward(
    settings: Mapping[str, Any], hidden: int, inner: int, count: int
) -> tuple[LinearShape, ...]:
    gate = () if settings.get("model_type") in _UNGATED else ("gate_proj",)
    names = (*gate, "up_proj")
    return (
        *(LinearShape(name, hidden, inner, count) for name in names),
        LinearShape("down_proj", inner, hidden, count),
    )


def _first(settings: Mapping[str, Any], *names: str) -> int | None:
    """The first positive integer under one of these names."""
    for name in names:
        value = settings.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
