"""An index of synthetic vectors, because encoding a million passages would take hours."""

import time
from pathlib import Path

from benchmarks.serving.server import RUNTIMES
from services.contracts.retrieval.indexes import DenseKind, IndexMode
from services.retrieval.builder.encoding import running_encoder
from services.retrieval.corpus.document import Document
from services.retrieval.encoder.specification import EncoderDescription, EncoderSpecification
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.manifest import DenseManifest, Manifest, finish_version
from services.retrieval.store.store import IndexStore
from services.retrieval.store.text_writer import TextWriter
from services.retrieval.store.tokens import Analyzer
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters
from tests.support.corpora import vectors

LOCK_SECONDS = 10.0


def build_vectors(indexes: Path, name: str, count: int) -> None:
    """Build it with the parts of a real build, under the default encoder's name; print the time."""
    indexes.mkdir(exist_ok=True)
    encoder = _default_encoder(indexes.parent)
    with IndexStore(indexes).writing(name, LOCK_SECONDS) as writing:
        writing.discard()
        version = writing.building
        version.path.mkdir(parents=True)
        begun = time.perf_counter()
        kind = _write_vectors(version, count)
        seconds = time.perf_counter() - begun
        _write_passages(version, count)
        dense = DenseManifest(
            kind=kind, dimension=vectors.DIMENSION, encoder=encoder.model_dump(mode="json")
        )
        manifest = Manifest(
            name=name, mode=IndexMode.DENSE, language=None, documents=count, dense=dense
        )
        finish_version(version, manifest)
        writing.publish()
    print(
        f"{name}: {count} vectors as {kind} in {seconds:.1f} s, {count / seconds:.0f} vectors/s",
        flush=True,
    )


def _default_encoder(folder: Path) -> EncoderDescription:
    with running_encoder(EncoderSpecification(), RUNTIMES, folder / "encoder.log") as encoder:
        return encoder.description


def _write_vectors(version: VersionFolder, count: int) -> DenseKind:
    with DenseBuilder(version.dense, DenseParameters(dimension=vectors.DIMENSION)) as builder:
        for chunk in vectors.vectors(count):
            builder.append(chunk)
        builder.finish()
        return builder.kind


def _write_passages(version: VersionFolder, count: int) -> None:
    with TextWriter(version, Analyzer(None), searchable=False) as writer:
        for start in range(0, count, 1000):
            writer.add([_document(number) for number in range(start, min(start + 1000, count))])
        writer.finish()


def _document(number: int) -> Document:
    return Document(id=str(number), contents=f"Passage {number}", title="", text="")
