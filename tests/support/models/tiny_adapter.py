"""LoRA adapters of the tiny model, with random weights."""

import array
import json
import random
import struct
from pathlib import Path

HIDDEN, KEY_VALUE, LAYERS, RANK = 128, 128, 2, 4


def write_adapter(folder: Path, seed: int = 1) -> Path:
    """Write an adapter that is large enough to change every answer."""
    folder.mkdir()
    generator, header, data = random.Random(seed), {}, b""
    for layer in range(LAYERS):
        prefix = f"base_model.model.model.layers.{layer}.self_attn.v_proj"
        for name, shape in (("lora_A", (RANK, HIDDEN)), ("lora_B", (KEY_VALUE, RANK))):
            values = array.array("f", (generator.gauss(0, 1) for _ in range(shape[0] * shape[1])))
            header[f"{prefix}.{name}.weight"] = {
                "dtype": "F32",
                "shape": shape,
                "data_offsets": (len(data), len(data) + 4 * len(values)),
            }
            data += values.tobytes()
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 32, "target_modules": ["v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
