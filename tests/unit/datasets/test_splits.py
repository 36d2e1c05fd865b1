"""Search and final parts of a benchmark's rows."""

import json
from pathlib import Path

import pytest

from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.datasets.record import UnreadableFile
from services.datasets.splits import by_subtask, rows_of_part, shuffled


@pytest.mark.parametrize(
    ("rows", "search", "final"),
    [
        (30, range(15), range(15, 30)),
        (21, range(10), range(11, 21)),
        (1319, range(100), range(1219, 1319)),
        (2, [0], [1]),
        (1, [], []),
    ],
)
def test_parts_are_the_first_and_the_last_rows(
    rows: int, search: range | list[int], final: range | list[int]
) -> None:
    split = by_subtask([()] * rows, shuffles=False)
    assert (split.search, split.final) == (list(search), list(final))


@pytest.mark.parametrize("shuffles", [False, True])
def test_each_sub_task_is_split_by_itself(*, shuffles: bool) -> None:
    subtasks = [("add",), ("delete",)] * 20
    split = by_subtask(subtasks, shuffles=shuffles)
    for part in (split.search, split.final):
        assert part == sorted(part)
        assert [subtasks[row] for row in part].count(("add",)) == 10
        assert len(part) == 20
    assert not set(split.search) & set(split.final)


def test_a_part_does_not_depend_on_the_other_sub_tasks_of_a_file() -> None:
    alone = by_subtask([("add",)] * 50, shuffles=True)
    beside = by_subtask([("add",)] * 50 + [("sub",)] * 7, shuffles=True)
    assert [row for row in beside.final if row < 50] == alone.final


def test_the_shuffle_is_the_documented_one() -> None:
    # The numbers 0.639, 0.025, 0.275 and 0.223 swap places 4 and 3, 3 and 0, 2 and 0, 1 and 0.
    assert shuffled([0, 1, 2, 3, 4]) == [1, 2, 4, 0, 3]


def test_benchmarks_say_how_their_rows_are_split(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"task": "t", "subtask": "s"}) + "\n" for _ in range(40)))
    shuffles = rows_of_part(path, BENCHMARKS["panorama_noc4pc"], "search")
    assert shuffles == rows_of_part(path, BENCHMARKS["chemcotbench"], "search")
    assert shuffles == sorted(shuffled(range(40))[:20]) != list(range(20))
    assert rows_of_part(path, BENCHMARKS["aime24"], "final") == list(range(20, 40))
    assert rows_of_part(path, None, "search") == list(range(20))


def test_a_row_without_its_sub_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"task": "mol_und", "subtask": "fg_count"}\n{"task": "mol_und", "subtask": 3}\n'
    )
    with pytest.raises(UnreadableFile, match="row 2: subtask is 3, not a string"):
        rows_of_part(path, BENCHMARKS["chemcotbench"], "search")
