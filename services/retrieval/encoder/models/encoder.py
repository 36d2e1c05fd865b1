"""A model with its prefixes, and a reranker where there is one."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.retrieval.encoder.specification import EncoderDescription, TextKind


class Vectorizer(Protocol):
    """A loaded model.

    ``reentrant`` says that several threads may call it at once, each of which then computes on
    one core; otherwise one call takes all the cores there are.
    """

    dimension: int
    device: str
    reentrant: bool

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Normalised vectors of texts that have their prefixes: (texts, dimension)."""
        ...


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return unit


Array = NDArray[np.float32]


class Scorer(Protocol):
    """Something that reads a query and a passage together."""

    def scores(self, query: str, passages: Sequence[str]) -> Array:
        """How well each passage fits: (passages,), more is better."""
        ...


class Encoder:
    """What texts are encoded and passages are scored with.

    ``concurrency`` is how many threads should call it at once.
    """

    def __init__(
        self,
        vectorizer: Vectorizer,
        description: EncoderDescription,
        concurrency: int,
        reranker: Scorer | None = None,
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
        """Whether scores are those of a reranker and not of the vectors."""
        return self._reranker is not None

    def prefixed(self, texts: Sequence[str], kind: TextKind) -> list[str]:
        """Texts as the model wants them, for `vectors`."""
        prefix = self._prefixes[kind]
        return [prefix + text for text in texts]

    def vectors(self, prefixed: Sequence[str]) -> Array:
        """Normalised vectors of texts, in batches of like lengths: (texts, dimension)."""
        return self._vectorizer.vectors(prefixed)

    def encode(self, texts: Sequence[str], kind: TextKind) -> Array:
        """Normalised vectors of texts without prefixes: (texts, dimension)."""
        return self.vectors(self.prefixed(texts, kind))

    def score(self, query: str, passages: Sequence[str]) -> Array:
        """How well each passage fits: (passages,), more is better."""
        if self._reranker is not None:
            with self._reranking:
                return self._reranker.scores(query, passages)
        asked = self.encode([query], TextKind.QUERY)[0]
        scores: Array = self.encode(passages, TextKind.PASSAGE) @ asked
        return scores
