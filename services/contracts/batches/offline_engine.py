"""The protocol between a prompt batch and its own engine, as JSON lines. The first line to the
engine is an `OfflineSampling`, followed by `OfflinePrompt`s and an empty line. The engine sends a
line ``{}`` when it is ready, and then `OfflineAnswer`s.
"""

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.contracts.engine import VllmOptions

MODULE = "services.inference.vllm.offline"
OF_BEAM_SEARCH = frozenset(
    {
        *("temperature", "max_tokens", "n", "ignore_eos", "skip_special_tokens"),
        *("use_beam_search", "length_penalty", "chat_template_kwargs"),
    }
)
"""The fields of `OfflineSampling` that have an effect on beam search."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class OfflineSampling(_Strict):
    """The request fields that such an engine accepts, under vLLM's names."""

    temperature: float = Field(default=1.0, ge=0.0)
    max_tokens: int = Field(default=16, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    n: int = Field(
        default=1, ge=1, le=1024, description="Number of answers, or the width of beam search."
    )
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(
        default=0,
        ge=-1,
        description="Number of the most likely tokens to sample from; 0 and -1: all.",
    )
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = Field(default=1.0, gt=0.0)
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    allowed_token_ids: list[int] | None = Field(default=None, min_length=1)
    bad_words: list[str] | None = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    use_beam_search: bool = False
    length_penalty: float = Field(default=1.0, description="Length penalty of beam search.")
    chat_template_kwargs: JsonObject | None = None

    @property
    def ignored(self) -> list[str]:
        """The fields that were given and have no effect."""
        if self.use_beam_search:
            return sorted(self.model_fields_set - OF_BEAM_SEARCH)
        return sorted(self.model_fields_set & {"length_penalty"})


class OfflineOptions(VllmOptions):
    """Settings of an engine without a server."""

    tensor_parallel_size: int = Field(
        default=1, ge=1, description="Number of GPUs that share the weights."
    )
    disable_cascade_attn: bool = Field(
        default=False,
        description="Whether to disable cascade attention, which attends to shared prefixes "
        "once for all sequences.",
    )


class OfflinePrompt(_Strict):
    """A conversation to answer; ``index`` is that of its record."""

    index: int
    messages: list[JsonObject]


class OfflineAnswer(_Strict):
    """The answers to a prompt, or why it was rejected; ``seconds`` since its arrival."""

    index: int
    texts: list[str] = []
    finish_reasons: list[str | None] = []
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str | None = None
