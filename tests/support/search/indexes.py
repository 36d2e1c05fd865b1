"""Small indexes of passages, built as the service builds them."""

from collections.abc import Sequence

import numpy as np

from services.contracts.retrieval.indexes import DenseKind, IndexMode
from services.retrieval.corpus.document import Document, join_contents
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.manifest import DenseManifest, Manifest, finish_version
from services.retrieval.store.store import IndexStore
from services.retrieval.store.text_writer import TextWriter
from services.retrieval.store.tokens import Analyzer
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters


def passage(id: str, text: str, title: str = "", **metadata: object) -> Document:  # noqa: A002 - the name of the field
    """A passage with these parts."""
    return Document(id, join_contents(title, text), title, text, metadata)


def write_version(
    version: VersionFolder,
    documents: Sequence[Document],
    *,
    name: str = "test",
    mode: IndexMode = IndexMode.BM25,
    vectors: np.ndarray | None = None,
    language: str | None = "english",
) -> None:
    """Write a complete version into a folder; ``vectors`` (n, d) for the modes that need them."""
    with TextWriter(version, Analyzer(language), searchable=mode is not IndexMode.DENSE) as writer:
        writer.add(documents)
        writer.finish()
    dense = None
    if vectors is not None:
        dense = DenseManifest(kind=DenseKind.FLAT, dimension=vectors.shape[1])
        parameters = DenseParameters(vectors.shape[1], DenseKind.FLAT)
        with DenseBuilder(version.dense, parameters) as builder:
            builder.append(vectors)
            builder.finish()
    manifest = Manifest(
        name=name, mode=mode, language=language, documents=len(documents), dense=dense
    )
    finish_version(version, manifest)


def build_index(
    store: IndexStore,
    name: str,
    documents: Sequence[Document],
    *,
    mode: IndexMode = IndexMode.BM25,
    vectors: np.ndarray | None = None,
    language: str | None = "english",
) -> str:
    """Build an index, or its next version, and serve it; the name of the version."""
    with store.writing(name, timeout=10) as writing:
        writing.discard()
        write_version(
            writing.building, documents, name=name, mode=mode, vectors=vectors, language=language
        )
        return writing.publish()
