"""Builds that import published vectors instead of encoding the corpus."""

import json
from pathlib import Path

import faiss
import numpy as np
import pytest

from services.contracts.retrieval.index_messages import BuildIndex, IndexBuilt
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import Reporter
from services.retrieval.builder import importing
from services.retrieval.builder.build import BuildContext, build_index
from services.retrieval.builder.encoding import Vectors
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.validation import InvalidCorpus
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from services.retrieval.vectors.builder import DenseBuilder
from services.retrieval.vectors.errors import VectorFileUnusable
from tests.support.search.hashing_encoder import HashingEncoder
from tests.support.search.index_building import rows

PASSAGES = 35


class Importer:
    """Builds an index from a corpus and a file of vectors in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "wiki-18.jsonl"
        self.file = folder / "e5_Flat.index"
        self.store = IndexStore(folder / "indexes")
        self.write(rows(PASSAGES))

    def write(self, corpus: list[dict[str, str]]) -> None:
        self.corpus.write_text("".join(json.dumps(row) + "\n" for row in corpus))

    def publish(self, vectors: Vectors) -> None:
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        faiss.write_index(index, str(self.file))

    def build(self, encoder: HashingEncoder, vectors: Path | None = None) -> IndexBuilt:
        order = BuildIndex(
            index="wiki",
            corpus=self.corpus,
            corpus_name=self.corpus.name,
            vectors=vectors or self.file,
            specification=IndexSpecification(mode=IndexMode.DENSE, encoder="hashing"),
            build="1",
        )
        progress = BuildProgress(Reporter(self.folder))
        return build_index(order, BuildContext(self.store, encoder.started), progress)

    def nearest(self, vector: Vectors) -> str:
        index = self.store.open("wiki").index
        try:
            ((hit,),) = index.search([Query("anything", IndexMode.DENSE, 1, vector=vector)])
            return hit.id
        finally:
            index.close()


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    return Importer(tmp_path)


def vectors_of(passages: int) -> Vectors:
    """What the encoder makes of the corpus."""
    texts = [f'"passage {number}"\npassage {number}' for number in range(passages)]
    return HashingEncoder().encode(texts)


def test_published_vectors_are_searched_and_hardly_anything_is_encoded(importer: Importer) -> None:
    vectors = vectors_of(PASSAGES)
    vectors[30] = HashingEncoder().encode(["only in the file"])
    importer.publish(vectors)
    encoder = HashingEncoder()

    built = importer.build(encoder)

    assert built.metrics.documents == PASSAGES
    assert len(encoder.encoded) == importing.COMPARED
    assert importer.nearest(vectors[30]) == "passage-30"
    assert importer.nearest(vectors[7]) == "passage-7"
    assert importer.store.summary("wiki").encoder == "hashing"


def test_parts_are_imported_without_joining_them(importer: Importer) -> None:
    importer.publish(vectors_of(PASSAGES))
    parts = importer.folder / "downloaded"
    parts.mkdir()
    content = importer.file.read_bytes()
    (parts / "part_aa").write_bytes(content[:5000])
    (parts / "part_ab").write_bytes(content[5000:])

    importer.build(HashingEncoder(), parts)

    assert importer.nearest(vectors_of(PASSAGES)[33]) == "passage-33"


def test_an_interrupted_import_resumes(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "IMPORT_CHUNK", 10)
    importer.publish(vectors_of(PASSAGES))
    append, appended = DenseBuilder.append, list[int]()

    def breaking(builder: DenseBuilder, vectors: Vectors) -> int:
        if builder.rows == 20 and not appended[2:]:
            appended.append(0)
            raise KeyboardInterrupt
        appended.append(len(vectors))
        return append(builder, vectors)

    monkeypatch.setattr(DenseBuilder, "append", breaking)
    with pytest.raises(KeyboardInterrupt):
        importer.build(HashingEncoder())

    importer.build(HashingEncoder())

    assert appended == [10, 10, 0, 10, 5]
    assert importer.nearest(vectors_of(PASSAGES)[12]) == "passage-12"


def test_another_file_of_vectors_starts_over(
    importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer.publish(vectors_of(PASSAGES))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(DenseBuilder, "finish", _interrupted)
        importer.build(HashingEncoder())
    changed = vectors_of(PASSAGES)
    changed[30] = HashingEncoder().encode(["only in the other file"])
    other = importer.file.rename(importer.folder / "old.index")
    importer.publish(changed)
    other.unlink()

    importer.build(HashingEncoder())

    assert importer.nearest(changed[30]) == "passage-30"


def _interrupted(_builder: DenseBuilder, _progress: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (vectors_of(PASSAGES)[:, :32], r"e5_Flat\.index: has vectors of 32 .* hashing makes 64"),
        (vectors_of(34), r"e5_Flat\.index: has 34 vectors, but the corpus 35 passages"),
        (vectors_of(36), r"e5_Flat\.index: has 36 vectors, but the corpus 35 passages"),
        (vectors_of(PASSAGES)[::-1], r"e5_Flat\.index: does not have the vectors that hashing"),
    ],
)
def test_vectors_of_another_corpus_or_encoder_are_refused(
    importer: Importer, vectors: Vectors, reason: str
) -> None:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    importer.publish(np.ascontiguousarray(vectors / lengths))

    with pytest.raises(VectorFileUnusable, match=reason) as caught:
        importer.build(HashingEncoder())

    assert caught.value.param == "vectors"
    assert importer.store.names() == []


def test_a_bad_row_is_reported_before_mismatched_vectors(importer: Importer) -> None:
    importer.write([*rows(3), {"id": "x"}, *rows(3, "more")])
    importer.publish(vectors_of(7))

    with pytest.raises(InvalidCorpus, match=r"wiki-18\.jsonl: row 4: contents is missing"):
        importer.build(HashingEncoder())
