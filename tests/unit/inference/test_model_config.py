"""Reading a model's files."""

import json
import struct
from pathlib import Path

import pytest

from services.inference.vllm.model_config import linear_modules


def weights(path: Path, **shapes: list[int]) -> None:
    header = {name.replace("__", "."): {"shape": shape} for name, shape in shapes.items()}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def test_linear_layer_names_are_read_from_the_weights(tmp_path: Path) -> None:
    weights(tmp_path / "model-1.safetensors", model__embed_tokens__weight=[9, 4])
    weights(
        tmp_path / "model-2.safetensors",
        lm_head__weight=[9, 4],
        model__layers__0__self_attn__q_proj__weight=[4, 4],
        model__layers__0__self_attn__q_proj__bias=[4],
        model__layers__1__mlp__up_proj__weight=[8, 4],
        model__layers__1__input_layernorm__weight=[4],
    )

    assert linear_modules(tmp_path) == ["q_proj", "up_proj"]


@pytest.mark.parametrize(
    "content", [b"", b"\x01", b"\x02\0\0\0\0\0\0\0{", b"\x04" + b"\0" * 7 + b"null"]
)
def test_other_file_formats_list_no_layers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)

    assert linear_modules(tmp_path) == []
    assert linear_modules(None) == []
