"""An encoder's process without a model: the letters of a text are its vector.

``python -m tests.support.search.encoder_child SOCKET SPECIFICATION``; the model's name says how it
behaves: ``missing`` cannot be loaded, ``slow`` never is, and ``letters`` is fine until a text says
``die`` or ``fail``.
"""

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.child.run import run
from services.retrieval.encoder.models.configuration import ModelUnusable
from services.retrieval.encoder.models.encoder import Encoder, normalized
from services.retrieval.encoder.specification import (
    Backend,
    EncoderDescription,
    EncoderSpecification,
)

Array = NDArray[np.float32]
DIMENSION = 27


def letters(text: str) -> Array:
    """How often each letter is in a text, as a vector of length 1; one dimension is for others."""
    counts = np.zeros(DIMENSION, np.float32)
    counts[0] = 0.1
    for letter in text.lower():
        counts[ord(letter) - ord("a") + 1 if "a" <= letter <= "z" else 0] += 1
    vector: Array = normalized(counts[None])[0]
    return vector


class LetterCounts:
    """Vectors of letters; ``batches`` are the texts of each call.

    A call sets ``began`` and continues when ``gate`` is set.
    """

    dimension = DIMENSION
    device = "cpu"
    reentrant = True

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.began = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def vectors(self, texts: Sequence[str]) -> Array:
        """The letters of texts."""
        self.batches.append(list(texts))
        self.began.set()
        self.gate.wait(30)
        if any("die" in text for text in texts):
            os._exit(3)
        if any("fail" in text for text in texts):
            raise RuntimeError("no vector for it")
        return np.stack([letters(text) for text in texts])


class Lengths:
    """A reranker to which the longest passage is the best."""

    def scores(self, query: str, passages: Sequence[str]) -> Array:
        """The passages' lengths, and the query's before the point."""
        return np.array([len(text) + len(query) / 100 for text in passages], np.float32)


def letter_encoder(
    vectorizer: LetterCounts, *, concurrency: int = 1, reranker: bool = False
) -> Encoder:
    """An encoder that writes ``q:`` before queries and ``p:`` before passages."""
    description = EncoderDescription(
        model="letters",
        fingerprint="letters",
        dimension=DIMENSION,
        query_prefix="q:",
        passage_prefix="p:",
        max_tokens=256,
        backend=Backend.TORCH,
        device="cpu",
        reranker="lengths" if reranker else None,
    )
    return Encoder(vectorizer, description, concurrency, Lengths() if reranker else None)


def load(specification: EncoderSpecification) -> Encoder:
    """What the name says."""
    if specification.model == "missing":
        raise ModelUnusable("there is no such model")
    if specification.model == "slow":
        threading.Event().wait()
    return letter_encoder(LetterCounts())


if __name__ == "__main__":
    run(Path(sys.argv[1]), EncoderSpecification.model_validate_json(sys.argv[2]), load)
