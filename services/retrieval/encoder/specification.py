"""Which model encodes, and how: what an operator or an index asks for, and what an encoder is."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from services.retrieval.encoder.errors import EncoderMismatch

DEFAULT_MODEL = "minilm"
"""The name of the model that comes with the runtime."""

ModelName = Annotated[str, Field(min_length=1, max_length=512)]
Prefix = Annotated[str, Field(max_length=2048)]


class TextKind(StrEnum):
    """What a text is: many models encode questions and passages differently."""

    QUERY = "query"
    PASSAGE = "passage"


class Backend(StrEnum):
    """What computes the vectors."""

    AUTO = "auto"  # onnx where the model can be run by it on this device, else torch
    ONNX = "onnx"
    TORCH = "torch"


class EncoderSpecification(BaseModel):
    """A request for an encoder.

    ``model`` and ``reranker`` are folders or hub names of sentence-transformers models, ``model``
    also `DEFAULT_MODEL`; they are trusted: who takes them from clients checks them first. A prefix
    of None is the one that the model, or else its family, is known to want. ``threads`` of None
    uses all cores that the process may use.
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
    """What an encoder that runs is.

    Vectors of two encoders can be compared when their fingerprints are equal: then weights,
    tokenizer, pooling, prefixes and truncation are. ``reranker`` of None means that `score` gives
    the cosine of the vectors.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    fingerprint: str
    dimension: int = Field(ge=1, le=65_536)
    query_prefix: str
    passage_prefix: str
    max_tokens: int = Field(ge=1, le=1_000_000)
    backend: Backend
    device: str
    reranker: str | None = None

    def specification(self) -> EncoderSpecification:
        """What to ask for in order to get this encoder again, wherever it runs."""
        return EncoderSpecification(
            model=self.model,
            max_tokens=self.max_tokens,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
        )

    def checked_against(self, other: "EncoderDescription") -> Self:
        """This one; raises `EncoderMismatch` when its vectors are not comparable to ``other``'s."""
        if self.fingerprint != other.fingerprint:
            raise EncoderMismatch(
                f"vectors of {other.model!r} ({other.dimension} dimensions, fingerprint "
                f"{other.fingerprint}) cannot be compared to those of {self.model!r} "
                f"({self.dimension} dimensions, fingerprint {self.fingerprint})"
            )
        return self
