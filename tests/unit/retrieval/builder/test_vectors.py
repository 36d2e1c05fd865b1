"""The vectors of a build: which encoder made them, what is resumed, what is re-encoded."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest, StorageFull
from services.contracts.retrieval.index_messages import (
    BuildIndex,
    IndexBuilt,
    PutCorpus,
    SearchIndex,
)
from services.contracts.retrieval.indexes import DenseKind, IndexMode, IndexSpecification
from services.core.process.reporter import Reporter
from services.retrieval.builder import vectors
from services.retrieval.builder.build import BuildContext, build_index
from services.retrieval.builder.changes import put_documents
from services.retrieval.builder.encoding import PassageEncoder, Vectors
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.builder.search import search_index
from services.retrieval.encoder.errors import EncoderMismatch, EncoderUnavailable, EncoderUnusable
from services.retrieval.encoder.specification import EncoderSpecification, TextKind
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from tests.support.search.hashing_encoder import HashingEncoder
from tests.support.search.index_building import rows


class Builder:
    """Builds indexes with vectors into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = IndexStore(folder / "indexes")
        self.progress = BuildProgress(Reporter(folder))

    def write(self, number: int, word: str = "passage") -> Path:
        corpus = self.folder / "corpus.jsonl"
        corpus.write_text("".join(json.dumps(row) + "\n" for row in rows(number, word)))
        return corpus

    def build(self, encoder: HashingEncoder, mode: IndexMode = IndexMode.HYBRID) -> IndexBuilt:
        order = BuildIndex(
            index="library",
            corpus=self.folder / "corpus.jsonl",
            corpus_name="corpus.jsonl",
            specification=IndexSpecification(mode=mode, dense=DenseKind.FLAT),
            build="1",
        )
        return build_index(order, BuildContext(self.store, encoder.started), self.progress)

    def add(self, encoder: HashingEncoder, corpus: Path) -> int:
        order = PutCorpus(index="library", corpus=corpus, corpus_name="more.jsonl")
        around = BuildContext(self.store, encoder.started)
        return put_documents(order, around, self.progress).documents

    def nearest(self, text: str) -> str:
        (vector,) = HashingEncoder().encode([text])
        index = self.store.open("library").index
        try:
            ((hit,),) = index.search([Query(text, IndexMode.DENSE, 1, vector=vector)])
            return hit.id
        finally:
            index.close()


class BreakingEncoder(HashingEncoder):
    """Encodes so many batches, and no more."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches

    def encode(self, passages: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
        if not self._left:
            raise EncoderUnavailable("gone")
        self._left -= 1
        return super().encode(passages)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setattr(vectors, "ENCODE_CHUNK", 10)
    return Builder(tmp_path)


@pytest.mark.parametrize("mode", [IndexMode.DENSE, IndexMode.HYBRID])
def test_a_passage_is_found_by_its_vector(builder: Builder, mode: IndexMode) -> None:
    builder.write(35)

    builder.build(HashingEncoder(), mode)

    assert builder.nearest('"passage 17"\npassage 17') == "passage-17"
    summary = builder.store.summary("library")
    assert (summary.mode, summary.dense, summary.encoder) == (mode, DenseKind.FLAT, "hashing")


def test_encoded_passages_are_not_encoded_again(builder: Builder) -> None:
    builder.write(35)
    with pytest.raises(EncoderUnavailable):
        builder.build(BreakingEncoder(batches=2))
    encoder = HashingEncoder()

    builder.build(encoder)

    assert len(encoder.encoded) == 15
    assert builder.nearest('"passage 3"\npassage 3') == "passage-3"


def test_vectors_of_another_encoder_are_recomputed(builder: Builder) -> None:
    builder.write(35)
    with pytest.raises(EncoderUnavailable):
        builder.build(BreakingEncoder(batches=2))
    other = HashingEncoder(fingerprint="others")

    builder.build(other)

    assert len(other.encoded) == 35


def test_a_corpus_that_changes_during_the_build_is_refused(builder: Builder) -> None:
    builder.write(35)

    class Meddler(HashingEncoder):
        def encode(self, passages: Sequence[str], kind: TextKind = TextKind.PASSAGE) -> Vectors:
            builder.write(35, "another")
            return super().encode(passages)

    with pytest.raises(InvalidRequest, match="changed while it was being read"):
        builder.build(Meddler())

    assert builder.store.names() == []


def test_a_too_small_disk_fails_before_encoding(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.write(35)
    monkeypatch.setattr(vectors, "free_bytes", lambda _: 100)
    encoder = HashingEncoder()

    with pytest.raises(StorageFull, match=r"take 0\.0 GB.*index 'library' is unchanged"):
        builder.build(encoder)

    assert encoder.encoded == []


def test_added_passages_are_searchable_by_vector(builder: Builder) -> None:
    builder.write(35)
    builder.build(HashingEncoder())

    assert builder.add(HashingEncoder(), builder.write(25, "another")) == 60

    assert builder.nearest('"another 9"\nanother 9') == "another-9"


def test_additions_with_another_encoder_are_refused(builder: Builder) -> None:
    builder.write(35)
    builder.build(HashingEncoder())

    with pytest.raises(EncoderMismatch):
        builder.add(HashingEncoder(fingerprint="others"), builder.write(5, "another"))

    assert builder.store.summary("library").documents == 35


@pytest.mark.parametrize("mode", [None, IndexMode.BM25, IndexMode.DENSE])
def test_an_index_can_be_searched_without_the_service(
    builder: Builder, mode: IndexMode | None
) -> None:
    builder.write(10)
    encoder = HashingEncoder()
    builder.build(encoder)
    request = SearchIndex(index="library", query="passage number3", topk=2, mode=mode)

    found = search_index(request, BuildContext(builder.store, encoder.started))

    assert found.mode is (mode or IndexMode.HYBRID)
    assert len(found.hits) == 2


class UnusableEncoder(HashingEncoder):
    """Fails to load its model."""

    @contextmanager
    def started(self, specification: EncoderSpecification) -> Iterator[PassageEncoder]:
        raise EncoderUnusable("there is no such model")
        yield self


def test_an_unusable_encoder_fails_before_the_text_is_indexed(builder: Builder) -> None:
    builder.write(10)

    with pytest.raises(EncoderUnusable, match="there is no such model"):
        builder.build(UnusableEncoder())

    assert not (builder.store.root / "library" / "building" / "text").exists()
