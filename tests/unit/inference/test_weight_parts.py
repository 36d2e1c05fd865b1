"""Which tensors an engine reads again when some have changed."""

import pytest

from services.inference.weights.parts import part_of, tensors_to_load

LAYER = "model.layers.3"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (f"{LAYER}.self_attn.q_proj.weight", f"{LAYER}.self_attn"),
        (f"{LAYER}.self_attn.k_proj.bias", f"{LAYER}.self_attn"),
        (f"{LAYER}.mlp.experts.7.gate_proj.weight", f"{LAYER}.mlp"),
        (f"{LAYER}.input_layernorm.weight", f"{LAYER}.input_layernorm"),
        ("visual.blocks.0.attn.qkv.weight", "visual.blocks.0.attn"),
        ("model.layers.3.alpha", LAYER),
        ("model.embed_tokens.weight", "model.embed_tokens"),
        ("lm_head.weight", "lm_head"),
        ("scale", ""),
    ],
)
def test_tensors_that_engines_fuse_belong_to_one_part(name: str, part: str) -> None:
    assert part_of(name) == part


def test_what_changed_is_read_with_what_it_may_be_fused_with() -> None:
    attention = [f"{LAYER}.self_attn.{each}_proj.weight" for each in "qkvo"]
    others = [f"{LAYER}.mlp.up_proj.weight", "model.layers.31.self_attn.q_proj.weight"]
    names = ["model.embed_tokens.weight", *attention, *others]

    assert tensors_to_load(names, {attention[1]}) == attention
    assert tensors_to_load(names, ["model.embed_tokens.weight"]) == names[:1]
    assert tensors_to_load(names, ()) == []
    assert tensors_to_load(names, None) == names
