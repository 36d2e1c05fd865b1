"""Settings of the inference engine of a local model."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.contracts.validation import AtField

LoraRank = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
"""The maximum ranks that vLLM supports; an adapter fits in any rank that is not lower."""


class Drafts(BaseModel):
    """Speculative decoding by lookup: tokens that followed earlier occurrences of the last ones are
    drafted, and the model verifies a whole draft in one pass. Drafts are accepted with the model's
    own probabilities, so that samples keep their distribution (Leviathan et al. 2023,
    arXiv:2211.17192)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    method: Literal["ngram", "suffix"] = Field(
        default="ngram",
        description="Source of drafts: ngram looks up the sequence itself, suffix also other "
        "answers of the engine (arXiv:2411.04975), with the package arctic-inference.",
    )
    tokens: int = Field(default=4, ge=1, le=32, description="Maximum tokens of one draft.")
    min_match: int | None = Field(
        default=None,
        ge=1,
        le=32,
        description="Least number of last tokens that must occur earlier in the sequence; for "
        "ngram alone; null: 2, or max_match if that is less.",
    )
    max_match: int | None = Field(
        default=None,
        ge=1,
        le=32,
        description="Largest number of last tokens that are looked up, the longest match first; "
        "for ngram alone; null: 5, or min_match if that is more.",
    )

    @model_validator(mode="after")
    def _check_matches(self) -> Self:
        if self.method != "ngram" and (self.min_match or self.max_match):
            given = "min_match" if self.min_match else "max_match"
            raise AtField(given, "min_match and max_match are for the method ngram")
        least, most = self.matches
        if least > most:
            raise AtField("min_match", "min_match must not be above max_match")
        return self

    @property
    def matches(self) -> tuple[int, int]:
        """How many last tokens ngram looks up, at least and at most."""
        least = self.min_match or min(2, self.max_match or 2)
        return least, self.max_match or max(5, least)


class VllmOptions(BaseModel):
    """Settings of a managed vLLM server; null: chosen by vLLM or by the hardware."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )

    max_model_len: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens of prompt and response together; null: what the model and "
        "memory allow.",
    )
    max_num_seqs: int | None = Field(
        default=None, ge=1, le=4096, description="Maximum requests that are generated concurrently."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Data type of the weights; auto: the checkpoint's, or float32 without a GPU "
        "unless checkpoint and processor have bfloat16.",
    )
    gpu_memory_utilization: float = Field(
        default=0.9,
        gt=0.0,
        le=0.98,
        description="Fraction of each GPU's memory that the engine uses.",
    )
    cpu_kv_cache_gib: float | None = Field(
        default=None,
        gt=0.0,
        le=1024.0,
        description="KV cache size in GiB without a GPU; null: for 32,768 tokens, at most 2 GiB.",
    )
    max_lora_rank: LoraRank | None = Field(
        default=None,
        description="Maximum LoRA rank; null: the smallest that fits the served adapters.",
    )
    enforce_eager: bool | None = Field(
        default=None,
        description="Whether to skip compilation; null: only without a GPU, where it takes "
        "longest.",
    )
    speculation: Drafts | Literal["auto"] | None = Field(
        default="auto",
        description="Speculative decoding: drafts of tokens, which the model verifies several at "
        "once; null: none. auto: none, unless the first minute of an online training "
        "shows that they pay.",
    )
    startup_timeout_seconds: float = Field(
        default=900.0,
        ge=1.0,
        le=7200.0,
        description="Maximum seconds until the engine must be ready.",
    )

    def check_drafts(self, min_p: object, field: tuple[str, ...] = ("sampling", "min_p")) -> None:
        """Raise `AtField` for drafts and answers that are filtered by ``min_p``, the ``field`` of
        the request: vLLM rejects every such request."""
        if min_p and isinstance(self.speculation, Drafts):
            raise AtField(field, "min_p must be 0 with engine.speculation: drafts are not filtered")
