"""Corpora of every form are read row by row, and all their problems reported."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.datasets.record import Problem, UnreadableFile
from services.retrieval.corpus.corpus import Corpus, Passage, open_corpus
from services.retrieval.corpus.identities import IdLog
from services.retrieval.corpus.validation import CheckedCorpus

ROWS = [
    {"id": "a", "contents": '"Łódź"\nA city.'},
    {"id": "b", "title": "北京", "text": "首都", "metadata": {"year": 1949, "tags": ["x"]}},
]


def passages(corpus: Corpus) -> list[Passage]:
    items = list(corpus)
    assert all(isinstance(item, Passage) for item in items), items
    return [item for item in items if isinstance(item, Passage)]


def written(path: Path, rows: list[Any]) -> Path:
    match path.suffix:
        case ".parquet":
            columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
            pq.write_table(pa.table(columns), path)
        case ".json":
            path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        case ".gz":
            path.write_bytes(gzip.compress(written(path.with_suffix(""), rows).read_bytes()))
            path.with_suffix("").unlink()
        case _:
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet", ".jsonl.gz"])
def test_files_of_every_container_give_the_same_passages(tmp_path: Path, suffix: str) -> None:
    corpus = open_corpus(written(tmp_path / f"corpus{suffix}", ROWS))

    first, second = passages(corpus)

    assert (first.document.id, first.document.title, first.row) == ("a", "Łódź", 1)
    assert second.document.contents == '"北京"\n首都'
    assert second.document.metadata == {"year": 1949, "tags": ["x"]}
    assert corpus.share_read == 1.0


def test_a_corpus_can_be_read_repeatedly(tmp_path: Path) -> None:
    corpus = open_corpus(written(tmp_path / "corpus.jsonl", ROWS))

    assert passages(corpus) == passages(corpus)


def test_a_bad_row_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n\n{"id": "b"}\nnonsense\n{"id": "c", "text": "y"}\n')

    items = list(open_corpus(path))

    problems = [str(item) for item in items if isinstance(item, Problem)]
    assert problems[0] == "row 3: contents is missing (or text, in its place)"
    assert problems[1].startswith("row 4: is not valid JSON")
    assert [item.document.id for item in items if isinstance(item, Passage)] == ["a", "c"]


def test_a_missing_or_invalid_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    (tmp_path / "empty").mkdir()

    for name in ("absent", "picture", "empty"):
        with pytest.raises(UnreadableFile):
            open_corpus(tmp_path / name)


def test_passages_of_a_folder_are_named_after_their_files(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "start.md").write_text("# Start\n\nFirst steps.", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("\n\n".join(["A paragraph. " * 30] * 4))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden.txt").write_text("hidden")

    found = passages(open_corpus(tmp_path))

    first = found[0].document
    assert (first.id, first.title) == ("guide/start.md#1", "guide/start")
    assert first.contents == '"guide/start"\n# Start\n\nFirst steps.'
    assert first.metadata == {"file": "guide/start.md"}
    others = [passage.document.id for passage in found[1:]]
    assert others == [f"notes.txt#{number}" for number in range(1, len(others) + 1)]
    assert len(others) > 1


def test_an_undecodable_file_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good \xff bad")
    (tmp_path / "b.txt").write_text("fine")

    problem, passage = open_corpus(tmp_path)

    assert str(problem) == "a.txt: is not UTF-8: byte 0xff at position 6"
    assert isinstance(passage, Passage)


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("fine")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "loop").symlink_to(tmp_path)

    assert [passage.document.id for passage in passages(open_corpus(folder))] == ["a.txt#1"]


def test_shards_are_one_corpus_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    written(tmp_path / "train" / "00001.jsonl.gz", [{"text": "second"}])
    written(tmp_path / "train" / "00000.jsonl", [{"text": "first"}, {"id": "x", "text": "own id"}])
    written(tmp_path / "validation.parquet", [{"text": "third"}])
    (tmp_path / ".hidden.jsonl").write_text("nonsense")

    corpus = open_corpus(tmp_path)

    assert [(each.document.id, each.document.text) for each in passages(corpus)] == [
        ("train/00000.jsonl#1", "first"),
        ("x", "own id"),
        ("train/00001.jsonl.gz#1", "second"),
        ("validation.parquet#1", "third"),
    ]
    assert corpus.share_read == 1.0
    assert passages(corpus) == passages(corpus)


def test_problems_of_shards_name_shard_and_row(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", [{"id": "1", "text": "x"}, {"id": "2"}])
    (tmp_path / "b.jsonl").write_text("")
    written(tmp_path / "c.jsonl.gz", [{"id": "1", "text": "x"}])
    checked = CheckedCorpus(open_corpus(tmp_path), "shards")

    with IdLog(tmp_path / "ids") as ids:
        for passage in checked:
            ids.add((passage.document.id,))
        checked.check_ids(ids)

    assert [str(problem) for problem in checked.problems] == [
        "a.jsonl, row 2: contents is missing (or text, in its place)",
        "b.jsonl: the file is empty",
        "c.jsonl.gz, row 1: id '1' is also that of a.jsonl, row 1",
    ]


def test_rows_without_ids_are_refused_where_ids_are_required(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", [{"text": "x"}])

    (problem,) = open_corpus(tmp_path, ids_required=True)

    assert str(problem) == "a.jsonl, row 1: id is missing"


def test_a_folder_of_rows_and_text_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "notes.md").write_text("text")

    with pytest.raises(UnreadableFile, match=r"both rows \(a\.jsonl\) and text \(notes\.md\)"):
        open_corpus(tmp_path)


def test_a_truncated_gzip_file_is_reported_with_its_row(tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": os.urandom(500).hex()} for number in range(400)]
    path = written(tmp_path / "corpus.jsonl.gz", rows)
    path.write_bytes(path.read_bytes()[:-1000])
    checked = CheckedCorpus(open_corpus(path), path.name)

    read = list(checked)

    assert 300 < len(read) < 400
    (problem,) = checked.problems
    assert (problem.row or 0) == len(read) + 1
    assert "the gzip file is damaged or incomplete" in problem.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b"%PDF"), "does not hold JSONL"),
        (gzip.compress(b""), "does not hold JSONL"),
        (gzip.compress(b"x")[:-1], "damaged or incomplete"),
        (b"\x1f\x8bno gzip", "damaged or incomplete"),
    ],
    ids=["text", "nothing", "cut", "noise"],  # the contents hold the time of their making
)
def test_another_gzip_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "corpus.gz"
    path.write_bytes(content)

    with pytest.raises(UnreadableFile, match=reason):
        open_corpus(path)
