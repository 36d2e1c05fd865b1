"""Settings of the inference engine of a local model."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LoraRank = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
"""The maximum ranks that vLLM supports; an adapter fits in any rank that is not lower."""


class VllmOptions(BaseModel):
    """Settings of a managed vLLM server; null: chosen by vLLM or by the hardware."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    max_model_len: int | None = Field(
        default=None,
        ge=1,
        description="Tokens of prompt and response; null: what the model and memory allow.",
    )
    max_num_seqs: int | None = Field(
        default=None, ge=1, le=4096, description="Requests that are generated concurrently."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="auto: the checkpoint's; without a GPU float32."
    )
    gpu_memory_utilization: float = Field(
        default=0.9, gt=0.0, le=0.98, description="Share of each GPU's memory to use."
    )
    cpu_kv_cache_gib: float | None = Field(
        default=None,
        gt=0.0,
        le=1024.0,
        description="KV cache size without a GPU; null: for 32,768 tokens, at most 2 GiB.",
    )
    max_lora_rank: LoraRank | None = Field(
        default=None,
        description="Maximum LoRA rank; null: the smallest that fits the served adapters.",
    )
    enforce_eager: bool | None = Field(
        default=None,
        description="Do not compile; null: true only without a GPU, where compiling takes longest.",
    )
    startup_timeout_seconds: float = Field(
        default=900.0, ge=1.0, le=7200.0, description="Maximum wait for the engine to be ready."
    )
