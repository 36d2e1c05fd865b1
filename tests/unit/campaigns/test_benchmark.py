"""The division of a benchmark into a search and a final part."""

import json
from pathlib import Path

import pytest

from services.campaigns.data.benchmark import divide, read_items
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.benchmarks import SplitName
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.datasets.splits import rows_of_part
from tests.support.campaigns.run import REQUEST


def request(**fields: object) -> CreateCampaign:
    return CreateCampaign.model_validate({**REQUEST, **fields})


def write(path: Path, prompts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"prompt": each, "gold": "1"}) + "\n" for each in prompts))
    return path


def test_items_are_divided_alike_in_any_order_and_equal_questions_stay_together(
    tmp_path: Path,
) -> None:
    prompts = [f"Question {number}?" for number in range(40)] * 2
    asked = request(final_share=0.25)
    parts = divide(read_items(write(tmp_path / "a.jsonl", prompts), asked), asked)
    other = divide(read_items(write(tmp_path / "b.jsonl", prompts[::-1]), asked), asked)

    final = {item.question for item in parts.final}
    assert (len(final), len(parts.final), len(parts.search)) == (10, 20, 60)
    assert final.isdisjoint(item.question for item in parts.search)
    assert final == {item.question for item in other.final}


def test_a_small_benchmark_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [f"Question {n}?" for n in range(12)])
    items = read_items(path, request())

    with pytest.raises(InvalidRequest, match="each part needs 10"):
        divide(items, request())


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "Why?"}\n{"text": "x"}\n')

    with pytest.raises(InvalidRequest, match="row 2"):
        read_items(path, request())


def test_items_of_a_named_benchmark_are_rows_of_its_published_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1), "id": n} for n in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    items = read_items(path, request(benchmark="aime25", benchmark_rows=25))

    assert [item.question for item in items] == [row["problem"] for row in rows[:25]]
    assert items[0].row == rows[0]


def test_published_splits_are_those_of_evaluations(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"query": f"Count {n}.", "gt": "1", "task": "mol_und", "subtask": subtask}
        for n in range(25)
        for subtask in ("fg_count", "ring_count")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = request(benchmark="chemcotbench_mol_und", splits="published")

    parts = divide(read_items(path, asked), asked)

    benchmark = BENCHMARKS["chemcotbench_mol_und"]
    names: tuple[SplitName, ...] = ("search", "final")
    for name, items in zip(names, (parts.search, parts.final), strict=True):
        expected = [rows[row] for row in rows_of_part(path, benchmark, name)]
        assert [item.row for item in items] == expected
        assert len(items) == 24


def test_published_splits_have_no_share() -> None:
    with pytest.raises(ValueError, match="no final_share"):
        request(splits="published", final_share=0.3)


def test_a_row_without_its_sub_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"query": "Count.", "task": "mol_und"}\n')

    with pytest.raises(InvalidRequest, match="row 1: subtask is missing"):
        read_items(path, request(benchmark="chemcotbench_mol_und", splits="published"))
