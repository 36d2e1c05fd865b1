"""An index and an encoder called directly, as the reference for the service.

Only here does a benchmark process load an encoder itself, so it runs with the Python of the runtime
``encoder`` where the mode needs one; `servers.with_packages` makes the other packages importable.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.encoder.specification import EncoderDescription, TextKind
from services.retrieval.store.query import Hit, Query
from services.retrieval.store.store import open_path

# The runtime's libraries are imported on demand: the core environment has none.
# ruff: noqa: PLC0415

Encode = Callable[[Sequence[str]], NDArray[np.float32]]


class Encoding(StrEnum):
    """How queries are encoded."""

    OWN = "own"  # the service's own way to run the model
    PUBLISHED = "published"  # the library that the model is published for, as it comes


class Libraries:
    """An opened index in a folder, searched in one mode."""

    def __init__(self, folder: Path, mode: IndexMode, encoding: Encoding) -> None:
        self._mode = mode
        self._index = open_path(folder).index
        self._encode = None if mode is IndexMode.BM25 else self._encoder(encoding)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return the passages of each query, searched in one batch."""
        vectors: Sequence[NDArray[np.float32] | None] = [None] * len(queries)
        if self._encode is not None:
            vectors = list(self._encode(queries))
        return self._index.search(
            [
                Query(text=text, mode=self._mode, topk=topk, vector=vector)
                for text, vector in zip(queries, vectors, strict=True)
            ]
        )

    def _encoder(self, encoding: Encoding) -> Encode:
        dense = self._index.manifest.dense
        if dense is None:
            raise SystemExit(f"index {self._index.name} has no vectors")
        description = EncoderDescription.model_validate(dense.encoder)
        return {Encoding.OWN: _own, Encoding.PUBLISHED: _published}[encoding](description)


def _own(description: EncoderDescription) -> Encode:
    from services.retrieval.encoder.models.loading import load

    encoder = load(description.specification())
    return lambda texts: encoder.encode(texts, TextKind.QUERY)


def _published(description: EncoderDescription) -> Encode:
    from sentence_transformers import SentenceTransformer

    from services.retrieval.encoder.models.loading import locate

    model = SentenceTransformer(str(locate(description.model)), device="cpu")
    model.max_seq_length = description.max_tokens

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        prefixed = [description.query_prefix + text for text in texts]
        vectors = model.encode(
            prefixed, batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)

    return encode
