"""A corpus is read once, and all its problems are named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.corpus import identities
from services.retrieval.corpus.corpus import open_corpus
from services.retrieval.corpus.identities import IdLog
from services.retrieval.corpus.validation import CheckedCorpus, InvalidCorpus


def check(folder: Path, rows: list[Any], most: int = 20) -> int:
    """Read a corpus of rows as a build does; return the number of its passages."""
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = CheckedCorpus(open_corpus(path), "corpus.jsonl", max_problems=most)
    with IdLog(folder / "ids") as ids:
        for passage in corpus:
            ids.add((passage.document.id,))
        corpus.check_ids(ids)
    corpus.raise_problems()
    return corpus.passages


def refusal(folder: Path, rows: list[Any], most: int = 20) -> InvalidCorpus:
    with pytest.raises(InvalidCorpus) as caught:
        check(folder, rows, most)
    return caught.value


def row(name: str) -> dict[str, str]:
    return {"id": name, "text": "text"}


def test_a_good_corpus_is_counted(tmp_path: Path) -> None:
    assert check(tmp_path, [row(str(number)) for number in range(1000)]) == 1000


def test_a_duplicate_id_names_both_rows(tmp_path: Path) -> None:
    error = refusal(tmp_path, [row("a"), row("b"), row("a"), row("c"), row("a")])

    assert [str(problem) for problem in error.problems] == [
        "row 3: id 'a' is also that of row 1",
        "row 5: id 'a' is also that of row 1",
    ]


def test_a_generated_id_may_collide_with_an_explicit_one(tmp_path: Path) -> None:
    error = refusal(tmp_path, [row("2"), {"text": "no id"}])

    assert str(error.problems[0]) == "row 2: id '2' is also that of row 1"


def test_problems_are_listed_in_row_order(tmp_path: Path) -> None:
    error = refusal(tmp_path, [row("a"), {"id": "b"}, row("a"), {"id": 1.5, "text": "x"}])

    assert [problem.row for problem in error.problems] == [2, 3, 4]
    assert error.message.startswith("corpus.jsonl: row 2: contents is missing")
    assert error.message.endswith("(and 2 more errors)")
    assert error.param == "file"


def test_reading_stops_after_too_many_problems(tmp_path: Path) -> None:
    error = refusal(tmp_path, [{"id": str(number)} for number in range(50)], most=5)

    assert len(error.problems) == 5
    assert error.message.endswith("(and 4 more errors; checking stopped there)")


def test_a_corpus_without_passages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("[]")
    corpus = CheckedCorpus(open_corpus(tmp_path / "empty.json"), "empty.json")

    assert list(corpus) == []
    with pytest.raises(InvalidCorpus, match="holds no passages"):
        corpus.raise_problems()


@given(st.lists(st.integers(0, 40), max_size=120), st.integers(1, 10))
def test_every_duplicate_id_is_a_suspect(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], most: int
) -> None:
    """The first repetitions, each with the first document of its id."""
    repetitions = [place for place, number in enumerate(numbers) if number in numbers[:place]][
        :most
    ]
    expected = {numbers.index(numbers[place]) for place in repetitions} | set(repetitions)

    with IdLog(tmp_path_factory.mktemp("ids") / "ids") as log:
        log.add(str(number) for number in numbers)
        assert log.suspects(most) == sorted(expected)


def test_many_ids_are_processed_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_CHUNK", 64)
    with IdLog(tmp_path / "ids") as log:
        log.add(str(number) for number in range(5000))
        log.add(["17", "4999"])
        assert log.suspects(10) == [17, 4999, 5000, 5001]
    assert list(tmp_path.iterdir()) == []
