"""The specification of an encoder, and the description of a running one."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from services.retrieval.encoder.errors import EncoderMismatch

DEFAULT_MODEL = "minilm"
"""The model that ships with the runtime."""

MAX_DIMENSION = 8192
"""Largest dimension of vectors."""

ModelName = Annotated[str, Field(min_length=1, max_length=512)]
Prefix = Annotated[str, Field(max_length=2048)]


class TextKind(StrEnum):
    """Role of a text; many models encode queries and passages differently."""

    QUERY = "query"
    PASSAGE = "passage"


class Backend(StrEnum):
    """Inference backend."""

    AUTO = "auto"  # onnx where the model can be run by it on this device, else torch
    ONNX = "onnx"
    TORCH = "torch"


class EncoderSpecification(BaseModel):
    """A requested encoder.

    ``model`` and ``reranker`` are folders or hub names of sentence-transformers models (``model``
    may be `DEFAULT_MODEL`); they are trusted, so callers validate names that come from clients. A
    prefix of None selects the model's own, or else its family's. ``threads`` of None uses all
    available cores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelName = DEFAULT_MODEL
    reranker: ModelName | None = None
    backend: Backend = Backend.AUTO
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d{1,2})?)$")] = "auto"
    max_tokens: int = Field(default=256, ge=8, le=8192)
    query_prefix: Prefix | None = None
    passage_prefix: Prefix | None = None
    threads: int | None = Field(default=None, ge=1, le=1024)


class EncoderDescription(BaseModel):
    """A running encoder.

    Vectors are comparable when fingerprints are equal: same weights, tokenizer, pooling, prefixes
    and truncation. Without a ``reranker``, `score` is the cosine similarity.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    fingerprint: str
    dimension: int = Field(ge=1, le=MAX_DIMENSION)
    query_prefix: str
    passage_prefix: str
    max_tokens: int = Field(ge=1, le=1_000_000)
    backend: Backend
    device: str
    reranker: str | None = None

    def specification(self) -> EncoderSpecification:
        """The specification that reproduces this encoder on any host."""
        return EncoderSpecification(
            model=self.model,
            max_tokens=self.max_tokens,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
        )

    def require_same_vectors(self, other: "EncoderDescription") -> Self:
        """Return self; raises `EncoderMismatch` when the vectors are not comparable to
        ``other``'s."""
        if self.fingerprint != other.fingerprint:
            raise EncoderMismatch(
                f"vectors of {other.model!r} ({other.dimension} dimensions, fingerprint "
                f"{other.fingerprint}) cannot be compared to those of {self.model!r} "
                f"({self.dimension} dimensions, fingerprint {self.fingerprint})"
            )
        return self
