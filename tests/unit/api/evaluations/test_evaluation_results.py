"""Paging through an evaluation's results while its file grows."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.api.evaluations.results import (
    EVERY_RESULT,
    RESULTS,
    ResultFilter,
    list_results,
)
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.results import ResultOutcome, SampleResult


def line(index: int, answer: str | None = "a", correct: bool | None = True) -> bytes:
    row = SampleResult(id="", index=index, gold=["a"], answer=answer, correct=correct)
    return row.model_dump_json(exclude={"id"}).encode() + b"\n"


def write(folder: Path, content: bytes) -> None:
    (folder / RESULTS).write_bytes(content)


def read_all(folder: Path, limit: int, where: ResultFilter = EVERY_RESULT) -> list[SampleResult]:
    found: list[SampleResult] = []
    after = None
    while True:
        page = list_results(folder, after=after, limit=limit, where=where)
        found += page.data
        if not page.has_more:
            return found
        assert len(page.data) == limit
        after = page.last_id


def test_a_missing_file_gives_an_empty_page(tmp_path: Path) -> None:
    page = list_results(tmp_path, after=None, limit=5)

    assert (page.data, page.has_more) == ([], False)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_contain_every_row_once_in_order(tmp_path: Path, limit: int) -> None:
    write(tmp_path, b"".join(line(n) for n in (3, 1, 2, 0, 6, 5, 4)))

    found = read_all(tmp_path, limit)

    assert [row.index for row in found] == [3, 1, 2, 0, 6, 5, 4]
    assert len({row.id for row in found}) == 7


def test_an_incomplete_row_is_not_shown(tmp_path: Path) -> None:
    write(tmp_path, line(0) + line(1)[:-1])
    page = list_results(tmp_path, after=None, limit=10)
    assert ([row.index for row in page.data], page.has_more) == ([0], False)

    write(tmp_path, line(0) + line(1) + line(2)[:5])
    page = list_results(tmp_path, after=page.last_id, limit=10)
    assert ([row.index for row in page.data], page.has_more) == ([1], False)


def test_the_page_after_the_last_row_is_empty_until_more_rows_arrive(tmp_path: Path) -> None:
    write(tmp_path, line(0))
    last = list_results(tmp_path, after=None, limit=10).last_id
    assert list_results(tmp_path, after=last, limit=10).data == []

    write(tmp_path, line(0) + line(1))
    assert [row.index for row in list_results(tmp_path, after=last, limit=10).data] == [1]


@pytest.mark.parametrize(
    "after",
    [
        "",
        "x",
        "evalres-",
        "evalres-1",
        "evalres-5",
        "evalres--1",
        "evalres-1\n",
        "evalres-٣",
        "ftevent-1",
        "evalres-" + "9" * 15,
        "evalres-" + "9" * 16,
    ],
)
def test_an_invalid_cursor_is_rejected(tmp_path: Path, after: str) -> None:
    write(tmp_path, line(0) + line(1))

    with pytest.raises(InvalidRequest) as caught:
        list_results(tmp_path, after=after, limit=10)

    assert caught.value.param == "after"


def test_a_cursor_into_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        list_results(tmp_path, after="evalres-7", limit=10)


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(
    ("outcome", "text", "expected"),
    [
        ("correct", None, [0, 3]),
        ("wrong", None, [1, 5]),
        ("failed", None, [2, 4]),
        (None, "paris", [0, 5]),
        ("wrong", "paris", [5]),
        ("correct", "rome", []),
        (None, None, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_filtered_pages_hold_every_wanted_row_once(
    tmp_path: Path,
    limit: int,
    outcome: ResultOutcome | None,
    text: str | None,
    expected: list[int],
) -> None:
    answers: list[tuple[str | None, bool | None]] = [
        ("Paris", True),
        ("Lyon", False),
        (None, None),
        ("Nice", True),
        ("not graded", None),
        ("in PARIS", False),
    ]
    write(tmp_path, b"".join(line(n, *each) for n, each in enumerate(answers)))

    found = read_all(tmp_path, limit, ResultFilter(outcome, text))

    assert [row.index for row in found] == expected


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_in_the_order_of_the_input(tmp_path: Path, limit: int) -> None:
    places = [(2, 0), (0, 1), (1, 0), (0, 0), (2, 1), (10, 0)]
    rows = [
        SampleResult(id="", index=index, sample=sample, gold=[], answer="x" * size, correct=True)
        for size, (index, sample) in zip((5, 200_000, 0, 7, 65_536, 1), places, strict=True)
    ]
    write(tmp_path, b"".join(row.model_dump_json(exclude={"id"}).encode() + b"\n" for row in rows))

    found, after = [], None
    for _ in range(len(places)):
        page = list_results(tmp_path, after=after, limit=limit, order="input")
        found += page.data
        after = page.last_id if page.has_more else after
        if not page.has_more:
            break

    assert [(row.index, row.sample) for row in found] == sorted(places)
    in_order_of_completion = {row.id: row.index for row in read_all(tmp_path, 100)}
    assert {row.id: row.index for row in found} == in_order_of_completion


def test_a_row_that_finishes_late_appears_in_input_order(tmp_path: Path) -> None:
    write(tmp_path, line(2) + line(0))
    first = list_results(tmp_path, after=None, limit=1, order="input")
    write(tmp_path, line(2) + line(0) + line(1) + line(3)[:-1])

    rest = list_results(tmp_path, after=first.last_id, limit=9, order="input")

    assert [row.index for row in first.data + rest.data] == [0, 1, 2]


@settings(deadline=None)
@given(
    answers=st.lists(st.text(max_size=20), max_size=8),
    sizes=st.lists(st.integers(0, 2000), max_size=8),
    limit=st.integers(1, 5),
)
def test_rows_of_a_growing_file_are_shown_once(
    tmp_path_factory: pytest.TempPathFactory, answers: list[str], sizes: list[int], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("grows")
    content = b"".join(line(n, answer) for n, answer in enumerate(answers))
    found: list[SampleResult] = []

    for size in [*sorted(sizes), *[len(content)] * len(answers)]:
        write(folder, content[:size])
        after = found[-1].id if found else None
        found += list_results(folder, after=after, limit=limit).data

    assert [(row.index, row.answer) for row in found] == list(enumerate(answers))


def test_rows_are_found_by_tag_or_sub_task(tmp_path: Path) -> None:
    rows = [
        SampleResult(id="", index=0, gold=[], answer="a", correct=True, tags=["algebra", "hard"]),
        SampleResult(id="", index=1, gold=[], answer="a", correct=False, group="mol_und/fg_count"),
        SampleResult(id="", index=2, gold=[], answer="a", correct=None, tags=["hard"]),
    ]
    lines = (row.model_dump_json(exclude={"id"}).encode() + b"\n" for row in rows)
    write(tmp_path, b"".join(lines))

    def found(tag: str, outcome: ResultOutcome | None = None) -> list[int]:
        return [row.index for row in read_all(tmp_path, 10, ResultFilter(outcome, tag=tag))]

    assert found("hard") == [0, 2]
    assert found("hard", "failed") == [2]
    assert found("mol_und/fg_count") == [1]
    assert found("har") == []


def test_the_samples_of_one_row_are_found(tmp_path: Path) -> None:
    rows = [
        SampleResult(
            id="", benchmark=name, index=index, sample=sample, gold=[], answer="a", correct=True
        )
        for name in ("sums", "words")
        for index, sample in ((1, 0), (0, 0), (1, 1), (11, 0))
    ]
    lines = (row.model_dump_json(exclude={"id"}).encode() + b"\n" for row in rows)
    write(tmp_path, b"".join(lines))

    found = read_all(tmp_path, 1, ResultFilter(benchmark="sums", row=1))

    assert [(row.benchmark, row.index, row.sample) for row in found] == [
        ("sums", 1, 0),
        ("sums", 1, 1),
    ]
    assert read_all(tmp_path, 1, ResultFilter(row=2)) == []
