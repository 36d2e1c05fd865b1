"""Builds in this process: resuming, starting over, and refusals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.retrieval.index_messages import BuildIndex, IndexBuilt
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.core.process.reporter import REPORTS, Reporter
from services.retrieval.builder import build, text
from services.retrieval.builder.build import BuildContext, build_index
from services.retrieval.builder.progress import BuildProgress
from services.retrieval.corpus.document import Document
from services.retrieval.corpus.validation import InvalidCorpus
from services.retrieval.store.errors import IndexBusy
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from services.retrieval.store.text_writer import TextWriter
from tests.support.search.hashing_encoder import HashingEncoder
from tests.support.search.index_building import rows


@dataclass
class Builder:
    """Builds into a folder of indexes."""

    folder: Path
    encoder: HashingEncoder = field(default_factory=HashingEncoder)

    @property
    def store(self) -> IndexStore:
        return IndexStore(self.folder / "indexes")

    @property
    def building(self) -> Path:
        return self.folder / "indexes" / "library" / "building"

    def write(self, corpus: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in corpus)
        (self.folder / "corpus.jsonl").write_text(lines)

    def build(self, name: str = "1", **specification: Any) -> IndexBuilt:
        order = BuildIndex(
            index="library",
            corpus=self.folder / "corpus.jsonl",
            corpus_name="corpus.jsonl",
            specification=IndexSpecification(**specification),
            build=name,
        )
        around = BuildContext(self.store, self.encoder.started)
        return build_index(order, around, BuildProgress(Reporter(self.folder)))

    def found(self, words: str) -> list[str]:
        index = self.store.open("library").index
        try:
            (hits,) = index.search([Query(words, IndexMode.BM25, 10)])
            return [hit.id for hit in hits]
        finally:
            index.close()

    def messages(self) -> list[str]:
        reports = map(json.loads, (self.folder / REPORTS).read_text().splitlines())
        return [report["message"] for report in reports if report["type"] == "message"]


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setattr(text, "COMMIT_PASSAGES", 500)
    monkeypatch.setattr(build, "LOCK_SECONDS", 0.1)
    return Builder(tmp_path)


def break_after(monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """Let the attempt end after so many commits."""
    commit, done = TextWriter.commit, 0

    def broken(writer: TextWriter) -> None:
        nonlocal done
        commit(writer)
        done += 1
        if done == commits:
            raise KeyboardInterrupt

    monkeypatch.setattr(TextWriter, "commit", broken)


def count_added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that are added from now on."""
    add, added = TextWriter.add, list[int]()

    def counted(writer: TextWriter, batch: Sequence[Document]) -> None:
        added.append(len(batch))
        add(writer, batch)

    monkeypatch.setattr(TextWriter, "add", counted)
    return added


def test_passages_are_searchable_after_a_build(builder: Builder) -> None:
    builder.write([{"id": "n", "title": "Nile", "text": "A river."}, {"id": "a", "text": "Alps"}])

    built = builder.build()

    assert built.metrics.documents == 2
    assert builder.found("rivers") == ["n"]


def test_a_new_build_replaces_the_previous_one(builder: Builder) -> None:
    builder.write(rows(3, "old"))
    first = builder.build("1")
    builder.write(rows(4, "new"))

    second = builder.build("2")

    assert first.version != second.version == builder.store.version("library")
    assert builder.found("old") == []
    assert len(builder.found("new")) == 4


def test_a_finished_build_is_not_repeated(builder: Builder) -> None:
    builder.write(rows(3))
    first = builder.build("1")

    assert builder.build("1").version == first.version


def test_a_failed_build_resumes_from_its_last_commit(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.write(rows(1600))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        break_after(patch, commits=2)
        builder.build("1")
    added = count_added(monkeypatch)

    assert builder.build("2").metrics.documents == 1600

    assert sum(added) == 600
    assert "resuming an earlier attempt" in builder.messages()


def test_duplicates_across_attempts_are_found(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.write([*rows(1200), {"id": "passage-3", "text": "again"}])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        break_after(patch, commits=1)
        builder.build()

    with pytest.raises(InvalidCorpus, match="row 1201: id 'passage-3' is also that of row 4"):
        builder.build()


@pytest.mark.parametrize("change", ["corpus", "specification"])
def test_a_different_build_does_not_resume_leftovers(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    builder.write(rows(1600))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        break_after(patch, commits=2)
        builder.build()
    if change == "corpus":
        builder.write(rows(700, "other"))

    built = builder.build(language="german" if change == "specification" else "english")

    assert built.metrics.documents == (700 if change == "corpus" else 1600)
    assert builder.messages() == []


def test_damaged_leftovers_are_rebuilt(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.write(rows(1600))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        break_after(patch, commits=2)
        builder.build()
    (builder.building / "passages" / "places").write_bytes(b"short")

    assert builder.build().metrics.documents == 1600

    assert any("unusable earlier attempt" in message for message in builder.messages())


def test_an_invalid_corpus_leaves_nothing_behind(builder: Builder) -> None:
    builder.write(rows(3))
    first = builder.build("1")
    builder.write([*rows(3), {"id": "x"}])

    with pytest.raises(InvalidCorpus, match="row 4: contents is missing"):
        builder.build("2")

    assert builder.store.version("library") == first.version
    assert not builder.building.exists()


def test_a_failed_first_build_frees_the_name(builder: Builder) -> None:
    builder.write([{"id": "x"}])

    with pytest.raises(InvalidCorpus):
        builder.build()

    assert builder.store.names() == []
    assert list((builder.folder / "indexes").iterdir()) == []


def test_an_unknown_language_is_an_error(builder: Builder) -> None:
    builder.write(rows(1))

    with pytest.raises(InvalidRequest, match="klingon") as caught:
        builder.build(language="klingon")

    assert caught.value.param == "language"


def test_concurrent_builds_of_one_index_do_not_mix(builder: Builder) -> None:
    builder.write(rows(3))

    with builder.store.writing("library", 0.1), pytest.raises(IndexBusy):
        builder.build()
