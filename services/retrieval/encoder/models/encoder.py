"""An embedding model with its prefixes, and optionally a reranker."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.specification import EncoderDescription, TextKind


class Vectorizer(Protocol):
    """A loaded model.

    ``reentrant``: several threads may call it concurrently, one core each; otherwise one call uses
    all cores.
    """

    dimension: int
    device: str
    reentrant: bool

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of prefixed texts: (texts, dimension)."""
        ...


def normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return unit


Array = NDArray[np.float32]


class PairScorer(Protocol):
    """Scores query-passage pairs jointly (cross-encoder)."""

    def scores(self, query: str, passages: Sequence[str]) -> Array:
        """Relevance of each passage: (passages,), higher is better."""
        ...


class Encoder:
    """Encodes texts and scores passages.

    ``concurrency`` is the number of threads that should call it.
    """

    def __init__(
        self,
        vectorizer: Vectorizer,
        description: EncoderDescription,
        concurrency: int,
        reranker: PairScorer | None = None,
    ) -> None:
        self.description = description
        self.concurrency = concurrency if vectorizer.reentrant else 1
        self._vectorizer = vectorizer
        self._reranker = reranker
        self._reranking = threading.Lock()
        self._prefixes = {
            TextKind.QUERY: description.query_prefix,
            TextKind.PASSAGE: description.passage_prefix,
        }

    @property
    def reranks(self) -> bool:
        """Whether scores come from a reranker instead of the vectors."""
        return self._reranker is not None

    def prefixed(self, texts: Sequence[str], kind: TextKind) -> list[str]:
        """Prepend the model's prefix for this kind of text."""
        prefix = self._prefixes[kind]
        return [prefix + text for text in texts]

    def vectors(self, prefixed: Sequence[str]) -> Array:
        """Unit vectors of prefixed texts, batched by length: (texts, dimension)."""
        return self._vectorizer.vectors(prefixed)

    def encode(self, texts: Sequence[str], kind: TextKind) -> Array:
        """Unit vectors of texts without prefixes: (texts, dimension)."""
        return self.vectors(self.prefixed(texts, kind))

    def score(self, query: str, passages: Sequence[str]) -> Array:
        """Relevance of each passage: (passages,), higher is better."""
        if self._reranker is not None:
            with self._reranking:
                return self._reranker.scores(query, passages)
        query_vector = self.encode([query], TextKind.QUERY)[0]
        scores: Array = self.encode(passages, TextKind.PASSAGE) @ query_vector
        return scores
