"""Stores a trained model in the precision of the one it was trained from.

LLaMA-Factory trains full weights in float32 and saves them so, twice the size of the usual base.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig

_HALF = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def restore_precision(directory: Path, base: Path) -> None:
    """Convert float32 weights in a folder to the base's half precision, one file at a time."""
    dtype = AutoConfig.from_pretrained(str(base), trust_remote_code=False).dtype
    if dtype not in _HALF:
        return
    for path in directory.glob("*.safetensors"):
        _convert(path, dtype)
    config_path = directory / "config.json"
    config = json.loads(config_path.read_bytes()) | {"dtype": _HALF[dtype]}
    config_path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _convert(path: Path, dtype: torch.dtype) -> None:
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    halved = {n: t.to(dtype) if t.dtype == torch.float32 else t for n, t in tensors.items()}
    partial = path.with_suffix(".partial")
    save_file(halved, partial, metadata)
    partial.replace(path)
