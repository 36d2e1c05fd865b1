"""Imports vectors from a file, in the order of the corpus, instead of computing them."""

from itertools import islice, takewhile

import numpy as np

from services.retrieval.builder.encoding import PassageEncoder
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.corpus import Corpus, Passage
from services.retrieval.vectors.base import normalized
from services.retrieval.vectors.builder import DenseBuilder
from services.retrieval.vectors.errors import VectorFileUnusable
from services.retrieval.vectors.published import PublishedVectors

IMPORT_CHUNK = 8192
COMPARED = 16
"""Passages that are encoded to check that the file holds the encoder's vectors."""

_MIN_COSINE = 0.95
"""Their minimum mean cosine. Unrelated texts reach 0.85 with some encoders; the same text, at
another precision or truncation, 0.97 and more."""


def check_vectors(published: PublishedVectors, encoder: PassageEncoder, corpus: Corpus) -> None:
    """Raise `VectorFileUnusable` if another encoder made the file.

    Compares dimensions, and the vectors of the first passages.
    """
    model, dimension = encoder.description.model, encoder.description.dimension
    if published.dimension != dimension:
        raise VectorFileUnusable(
            published.path,
            f"has vectors of {published.dimension} dimensions, but the encoder {model} makes "
            f"{dimension}",
        )
    texts = _first_texts(corpus, min(COMPARED, published.rows))
    if not texts:
        return
    given = normalized(next(published.read(0, len(texts))), dimension)
    cosine = float(np.einsum("ij,ij->i", given, encoder.encode(texts)).mean())
    if not cosine >= _MIN_COSINE:
        raise VectorFileUnusable(
            published.path,
            f"does not have the vectors that {model} makes of the first {len(texts)} passages "
            f"(mean cosine {cosine:.2f}): another encoder made them, or for another corpus",
        )


def _first_texts(corpus: Corpus, most: int) -> list[str]:
    """The first passages, up to a bad row: after it, numbers and vectors no longer match, and
    reading the whole corpus reports it."""
    good = takewhile(lambda item: isinstance(item, Passage), corpus)
    return [item.document.contents for item in islice(good, most) if isinstance(item, Passage)]


def import_vectors(
    builder: DenseBuilder, published: PublishedVectors, passages: int, progress: BuildProgress
) -> None:
    """Append the vectors missing from earlier attempts; raises `VectorFileUnusable`."""
    if published.rows != passages:
        raise VectorFileUnusable(
            published.path, f"has {published.rows:,} vectors, but the corpus {passages:,} passages"
        )
    progress.begin("importing_vectors", builder.rows)
    for vectors in published.read(builder.rows, IMPORT_CHUNK):
        builder.append(vectors)
        progress.report(builder.rows, passages)
