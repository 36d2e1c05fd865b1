"""Records are read from, and rows are written to, all the formats that people keep them in."""

import csv
import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from pyarrow import parquet
from pydantic_core import PydanticSerializationError

from services.contracts.batches.prompt_batches import Parsing
from services.datasets.record import UnreadableFile
from services.evaluator.prompts.outputs import write_rows
from services.evaluator.prompts.parsing import Predictions
from services.evaluator.prompts.records import read_prompt_records

ROWS: list[dict[str, Any]] = [
    {
        "index": 0,
        "status_code": 200,
        "result": '好\n"a", {b}',
        "error": None,
        "time_cost": 0.25,
        "usage": {"completion_tokens": 5},
        "attempts": 1,
    },
    {
        "index": 1,
        "status_code": None,
        "result": None,
        "error": "Render Error: x",
        "time_cost": 0.0,
        "usage": None,
        "attempts": 0,
    },
]


def written(path: Path, rows: list[dict[str, Any]] = ROWS, *, parsed: bool = False) -> Path:
    write_rows(iter(rows), path, parsed=parsed)
    return path


@pytest.mark.parametrize("rows", [ROWS, []])
def test_json_is_what_the_json_module_dumps(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    text = written(tmp_path / "out.json", rows).read_text(encoding="utf-8")

    assert text == json.dumps(rows, ensure_ascii=False, indent=2)


def test_jsonl_has_a_row_a_line(tmp_path: Path) -> None:
    lines = written(tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()

    assert [json.loads(line) for line in lines] == ROWS


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_tables_read_back_as_the_same_rows(tmp_path: Path, suffix: str) -> None:
    rows = list(read_prompt_records(written(tmp_path / f"out{suffix}")))

    assert [str(row["index"]) for row in rows] == ["0", "1"]
    assert rows[0]["result"] == ROWS[0]["result"]
    assert json.loads(rows[0]["usage"]) == {"completion_tokens": 5}
    assert rows[1]["result"] in (None, "")
    assert rows[1]["error"] == "Render Error: x"


def test_parquet_keeps_types(tmp_path: Path) -> None:
    table = parquet.read_table(written(tmp_path / "out.parquet"))

    assert [str(field.type) for field in table.schema][:5] == [
        *("int64", "int64", "string", "string", "double"),
    ]


def test_a_failed_write_keeps_the_old_output(tmp_path: Path) -> None:
    path = written(tmp_path / "out.json")
    before = path.read_bytes()

    with pytest.raises(PydanticSerializationError):
        written(path, [{"index": object()}])

    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]


def test_records_of_a_spreadsheet_have_the_names_of_its_first_row(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for line in (["query", "数", None], ["x", 3, None], [None, None, None], ["y", None, None]):
        book.active.append(line)
    book.save(tmp_path / "in.xlsx")

    records = list(read_prompt_records(tmp_path / "in.xlsx"))

    assert records == [{"query": "x", "数": 3}, {"query": "y", "数": ""}]


def test_a_csv_cell_may_hold_lines_and_commas(tmp_path: Path) -> None:
    with open(tmp_path / "in.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([["query"], ["a,\nb"]])

    assert list(read_prompt_records(tmp_path / "in.csv")) == [{"query": "a,\nb"}]


@pytest.mark.parametrize(
    ("content", "records"),
    [
        ("a;b\n1,5;2\n", [{"a": "1,5", "b": "2"}]),
        ("a\tb\n1\t\n", [{"a": "1", "b": ""}]),
        ("a|b\n1|2;3\n", [{"a": "1", "b": "2;3"}]),
        ("a,b\n1;2,3\n4,\n", [{"a": "1;2", "b": "3"}, {"a": "4", "b": ""}]),
        ("a,b,c\n1\n", [{"a": "1", "b": "", "c": ""}]),
        ("question\nWhat; and why, please?\n", "has more than 1 columns"),
        ('question\n"What; and why, please?"\n', [{"question": "What; and why, please?"}]),
        ("a;b,c\n1;2,3\n", "may be ',' and ';': give --delimiter"),
    ],
)
def test_the_delimiter_of_a_csv_file_is_detected(
    tmp_path: Path, content: str, records: object
) -> None:
    path = tmp_path / "in.csv"
    path.write_text(content)

    if isinstance(records, str):
        with pytest.raises(UnreadableFile, match=records):
            list(read_prompt_records(path))
    else:
        assert list(read_prompt_records(path)) == records


def test_the_delimiter_of_a_csv_file_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a;b,c\n1;2,3\n")

    assert list(read_prompt_records(tmp_path / "in.csv", ";")) == [{"a": "1", "b,c": "2,3"}]


def test_csv_begins_with_the_mark_by_which_excel_knows_utf_8(tmp_path: Path) -> None:
    assert written(tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbfindex,")


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_text_cuts_no_line(tmp_path: Path, suffix: str) -> None:
    row = {**ROWS[0], "result": "a\u2028b\u2029c\x85d"}
    text = written(tmp_path / f"out{suffix}", [row]).read_text(encoding="utf-8")

    assert "a\\u2028b\\u2029c\\u0085d" in text
    assert len(text.splitlines()) == len(text.split("\n")) - text.endswith("\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", "a,a\n1,2\n", "name each column once"),
        ("in.csv", "a\n1\n1,2\n", "row 2: has more than 1 columns"),
        ("in.jsonl", '{"a": 1}\n[1]\n', "row 2: is a list"),
        ("in.xlsx", "no workbook", "not an Excel workbook"),
    ],
)
def test_a_bad_file_of_records_is_refused_with_the_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(UnreadableFile, match=message):
        list(read_prompt_records(tmp_path / name))


def test_predictions_name_what_became_of_each_text() -> None:
    predictions = Predictions(Parsing(path="label.0"))
    results: list[Any] = [
        '<think>{"label": ["no"]}</think>\n{"label": ["yes"]}',
        "no json",
        "```json\n{broken\n```",
        '{"other": 1}',
        ['{"label": [1]}', None],
    ]
    rows: list[dict[str, Any]] = [{"result": result, "error": None} for result in results]

    parsed = list(predictions.added_to([*rows, {"result": None, "error": "500"}]))

    assert [row["outcome"] for row in parsed] == [
        *("parsed", "no_json", "invalid_json", "parsed", ["parsed", "no_json"], None),
    ]
    assert [row["prediction"] for row in parsed] == ["yes", None, None, None, [1, None], None]
    assert predictions.outcomes == {"parsed": 3, "no_json": 2, "invalid_json": 1}
