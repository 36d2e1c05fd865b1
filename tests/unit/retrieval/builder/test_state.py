"""A build resumes another's leftovers only when both make the same index."""

import os
from pathlib import Path

import pytest

from services.contracts.retrieval.index_messages import BuildIndex
from services.contracts.retrieval.indexes import IndexMode, IndexSpecification
from services.datasets.record import UnreadableFile
from services.retrieval.builder.state import STATE, BuildState, identity_of, read_state
from services.retrieval.store.layout import VersionFolder


def state(corpus: Path, mode: IndexMode = IndexMode.BM25, build: str = "1") -> BuildState:
    return BuildState.of(
        BuildIndex(
            index="library",
            corpus=corpus,
            corpus_name="corpus",
            specification=IndexSpecification(mode=mode),
            build=build,
        )
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "x"}\n')
    return path


def test_a_build_of_the_same_corpus_resumes(corpus: Path) -> None:
    assert state(corpus, build="1").is_of_same_index(state(corpus, build="2"))


def test_a_different_specification_starts_over(corpus: Path) -> None:
    assert not state(corpus).is_of_same_index(state(corpus, IndexMode.HYBRID))


def test_a_changed_corpus_starts_over(corpus: Path) -> None:
    before = state(corpus)

    corpus.write_text('{"text": "y"}\n')
    os.utime(corpus, (1, 1))

    assert not state(corpus).is_of_same_index(before)


def test_a_new_file_in_a_folder_changes_the_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    before = identity_of(tmp_path)

    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_text("c")

    assert identity_of(tmp_path) != before


def test_a_missing_corpus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="No such file"):
        identity_of(tmp_path / "absent")


def test_a_stored_state_is_read_back(corpus: Path, tmp_path: Path) -> None:
    version = VersionFolder(tmp_path)
    kept = state(corpus).model_copy(update={"passages": 5})

    kept.write(version)

    assert read_state(version) == kept


@pytest.mark.parametrize("content", [b"", b"{", b'{"build": 1}'])
def test_an_unreadable_state_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STATE).write_bytes(content)

    assert read_state(VersionFolder(tmp_path)) is None
