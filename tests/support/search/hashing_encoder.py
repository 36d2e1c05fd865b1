"""An encoder without a model: words become directions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import numpy as np

from services.retrieval.builder.encoding import PassageEncoder, Vectors
from services.retrieval.encoder.specification import (
    Backend,
    EncoderDescription,
    EncoderSpecification,
    TextKind,
)

DIMENSION = 64


class HashingEncoder:
    """Texts with the same words have the same vector, others a clearly different one."""

    def __init__(self, fingerprint: str = "hashes") -> None:
        self.encoded: list[str] = []
        self.description = EncoderDescription(
            model="hashing",
            fingerprint=fingerprint,
            dimension=DIMENSION,
            query_prefix="",
            passage_prefix="",
            max_tokens=256,
            backend=Backend.TORCH,
            device="cpu",
        )

    def encode(self, passages: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
        self.encoded += passages
        sums = np.stack([np.sum(_directions(text), axis=0) for text in passages])
        vectors: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return vectors

    @contextmanager
    def started(self, specification: EncoderSpecification) -> Iterator[PassageEncoder]:
        """It is there already."""
        yield self

    @contextmanager
    def in_place(
        self, specification: EncoderSpecification, runtimes: Path, log: Path
    ) -> Iterator[PassageEncoder]:
        """Stands in for `running_encoder`."""
        yield self


def _directions(text: str) -> list[Vectors]:
    return [
        np.random.default_rng(crc32(word.encode())).standard_normal(DIMENSION, dtype=np.float32)
        for word in text.split()
    ]
