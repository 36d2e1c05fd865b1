"""What a model's files say about serving it without a GPU."""

import re
from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.models.tensor_headers import tensor_shapes

MEBIBYTE = 2**20
CACHED_TOKENS = 32_768
LEAST_CACHE = 64 * MEBIBYTE
MOST_CACHE = 2048 * MEBIBYTE
UNKNOWN_CACHE = 1024 * MEBIBYTE
_LINEAR = re.compile(r"\.\d+\.(?:[^.]+\.)*([^.]+)\.weight$")


class ModelConfig(BaseModel):
    """The fields of a transformers configuration used here; None if absent."""

    dtype: str | None = None
    torch_dtype: str | None = None
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None

    @property
    def is_float32(self) -> bool:
        """Whether the weights are stored in single precision."""
        return (self.dtype or self.torch_dtype) == "float32"

    @property
    def is_bfloat16(self) -> bool:
        """Whether the weights are stored in bfloat16."""
        return (self.dtype or self.torch_dtype) == "bfloat16"

    def cache_bytes_per_token(self) -> int | None:
        """Size of one token's keys and values, or None for an unusual architecture."""
        heads, layers = self.num_attention_heads, self.num_hidden_layers
        if not heads or not layers:
            return None
        head_dim = self.head_dim or (self.hidden_size or 0) // heads
        element = 4 if self.is_float32 else 2
        return 2 * layers * (self.num_key_value_heads or heads) * head_dim * element or None


def read_model_config(folder: Path | None) -> ModelConfig:
    """Read the configuration if possible; vLLM reports problems with a model better."""
    if folder is None:
        return ModelConfig()
    try:
        return ModelConfig.model_validate_json((folder / "config.json").read_bytes())
    except (OSError, ValidationError):
        return ModelConfig()


def cpu_cache_bytes(config: ModelConfig) -> int:
    """Memory for the KV cache without a GPU.

    vLLM zeroes it at start, which takes seconds per GiB: enough for many concurrent conversations,
    and not more.
    """
    per_token = config.cache_bytes_per_token()
    if per_token is None:
        return UNKNOWN_CACHE
    return min(max(per_token * CACHED_TOKENS, LEAST_CACHE), MOST_CACHE)


def linear_modules(folder: Path | None) -> list[str]:
    """Names of the linear modules in a model's layers, as LoRA targets (q_proj, ...); empty without
    safetensors."""
    for path in sorted(folder.glob("*.safetensors")) if folder else []:
        shapes = tensor_shapes(path).items()
        names = [_LINEAR.search(name) for name, shape in shapes if len(shape) == 2]
        if found := sorted({name[1] for name in names if name}):
            return found
    return []
