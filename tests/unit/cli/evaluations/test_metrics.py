"""``temper metrics tool-calls``: files in, tables and reports out."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from temper.cli.main import main

NEEDED = [
    {
        "url": "https://example.org/1",
        "历史对话": ["你好", "请查车长"],
        "当前query": "=1+1",
        "label": [{"toolName": "truckCheck", "paramList": {"truckType": "车长", "value": 9.6}}],
    },
    {"history": "earlier", "query": "none", "label": []},
    {"label": '[{"toolName": "search", "paramList": {"q": "10:30"}}]'},
]
ANSWERS = [
    '<think>[]</think>```json\n{"label": [{"toolName": "truckCheck", '
    '"paramList": {"truckType": "车长", "value": "9.6"}}]}\n```',
    "there is nothing to call",
    {"prediction": [{"toolName": "search", "paramList": {"q": "10:45"}}]},
]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    labels, predictions = tmp_path / "labels.json", tmp_path / "predictions.jsonl"
    labels.write_text(json.dumps(NEEDED))
    predictions.write_text("".join(json.dumps(each) + "\n" for each in ANSWERS))
    return ["--labels", str(labels), "--predictions", str(predictions)]


def run(arguments: list[str]) -> int:
    return main(["metrics", "tool-calls", *arguments])


def printed(files: list[str], capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run([*files, "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_json_has_tools_parameters_averages_and_strict(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = printed(files, capsys)
    perfect = {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    assert document["tools"]["truckCheck"] == {
        **perfect,
        **{"tp": 1, "fp": 0, "fn": 0, "label_count": 1, "pred_count": 1, "hit_count": 1},
    }
    assert document["parameters"]["search-q"] == {
        **{"precision": 0.0, "recall": 0.0, "f1": 0.0},
        **{"tp": 0, "fp": 1, "fn": 1, "label_count": 1, "pred_count": 1, "hit_count": 0},
    }
    assert document["micro_avg"] == document["macro_avg"] == perfect
    assert document["parameter_averages"]["micro_avg"]["f1"] == pytest.approx(2 / 3)
    assert document["strict"] == {"single": [1, 2], "multi": [0, 0]}
    assert document["predictions"] == {"parsed": 2, "no_json": 1, "invalid_json": 0}


def test_options_change_what_is_counted(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    composite = tmp_path / "composite.yaml"
    composite.write_text("truckCheck: {type: truckType, value: value, types: [车长, 车型]}\n")
    options = [
        "--negative",
        "--strict-types",
        "--composite",
        str(composite),
        "--important",
        "search",
    ]
    document = printed(files, capsys, *options)
    assert document["tools"]["__NEGATIVE__"]["hit_count"] == 1
    assert document["parameters"]["truckCheck-truckType-车长"]["hit_count"] == 0
    assert document["important"]["parameters"]["micro_avg"]["f1"] == 0.0


def test_the_workbook_has_its_three_sheets(files: list[str], tmp_path: Path) -> None:
    target = tmp_path / "report.xlsx"
    assert run([*files, "-o", str(target), "--important", "search"]) == 0
    book = load_workbook(target)
    assert book.sheetnames == ["工具指标", "参数指标", "badcase"]
    tools = list(book["工具指标"].values)
    assert tools[0] == ("工具名", "P", "R", "F1", "label_count", "pred_count", "hit_count")
    assert tools[1:3] == [("search", 1, 1, 1, 1, 1, 1), ("truckCheck", 1, 1, 1, 1, 1, 1)]
    assert [row[0] for row in tools[3:]] == [
        *("micro_avg", "macro_avg", "micro_avg (search)", "macro_avg (search)"),
    ]
    assert tools[3][4:] == (None, None, None)
    assert book["工具指标"]["B2"].number_format == "0.0000"
    bad = list(book["badcase"].values)
    assert bad[0] == ("url", "历史对话", "query", "label", "pred")
    assert len(bad) == 2
    assert '"10:30"' in str(bad[1][3])
    assert '"10:45"' in str(bad[1][4])


def test_all_rows_can_be_listed_and_formulas_stay_text(files: list[str], tmp_path: Path) -> None:
    target = tmp_path / "report.xlsx"
    assert run([*files, "-o", str(target), "--all"]) == 0
    sheet = load_workbook(target)["badcase"]
    rows = list(sheet.values)
    assert [row[1:3] for row in rows[1:]] == [
        ("你好\n请查车长", "=1+1"),
        ("earlier", "none"),
        (None, None),
    ]
    assert sheet["C2"].data_type == "s"


def test_a_page_shows_hostile_text_as_text(tmp_path: Path) -> None:
    labels, target = tmp_path / "labels.json", tmp_path / "report.html"
    labels.write_text(json.dumps([{"url": "<script>x</script>", "label": [{"toolName": "<b>"}]}]))
    predictions = tmp_path / "predictions.json"
    predictions.write_text('["no call"]')
    files = ["--labels", str(labels), "--predictions", str(predictions)]
    assert run([*files, "-o", str(target)]) == 0
    page = target.read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "http" not in page


def test_csv_and_json_hold_the_tables(files: list[str], tmp_path: Path) -> None:
    table, document = tmp_path / "report.csv", tmp_path / "report.json"
    assert run([*files, "-o", str(table)]) == 0
    rows = list(csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines()))
    assert {(row["sheet"], row["工具名"]) for row in rows} >= {
        ("工具指标", "search"),
        ("参数指标", "search-q"),
        ("参数指标", "macro_avg"),
    }
    assert run([*files, "-o", str(document)]) == 0
    assert json.loads(document.read_text())["samples"] == 3


def test_the_table_is_printed(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files) == 0
    out = capsys.readouterr().out
    assert "truckCheck-value" in out
    assert "exact matches with one call: 1 of 2" in out
    assert "no JSON: 1; invalid JSON: 0" in out


@pytest.mark.parametrize(
    ("labels", "predictions", "message"),
    [
        ("[]", "[]", "there are no labels"),
        ("[[], []]", "[[]]", "there are 2 labels but 1 predictions"),
        ('[[{"name": "a"}]]', "[[]]", "sample 0: label[0].toolName is missing or not a text"),
        ("[[]]", '[[{"paramList": {}}]]', "sample 0: prediction[0].toolName is missing"),
        ("[[]]", '[{"answer": []}]', "sample 0: prediction: the record has none of the fields"),
        ('["text"]', "[[]]", "sample 0: label is a text without valid JSON"),
        ('["{}"]', "[[]]", "sample 0: label has no field label"),
        ("[]\n[\n", "[[]]", "labels.json: line 2 is not JSON"),
    ],
)
def test_bad_input_is_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    labels: str,
    predictions: str,
    message: str,
) -> None:
    (tmp_path / "labels.json").write_text(labels)
    (tmp_path / "predictions.json").write_text(predictions)
    files = [
        *("--labels", str(tmp_path / "labels.json")),
        *("--predictions", str(tmp_path / "predictions.json")),
    ]
    assert run(files) == 1
    assert message in capsys.readouterr().err


def test_bad_options_are_reported(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*files, "-o", str(tmp_path / "report.pdf")]) == 2
    assert ".xlsx" in capsys.readouterr().err
    assert run([*files, "--important", "searhc"]) == 1
    assert "no tool 'searhc'; the tools are search, truckCheck" in capsys.readouterr().err
    composite = tmp_path / "composite.yaml"
    composite.write_text("truckCheck: {type: truckType, types: [x]}\n")
    assert run([*files, "--composite", str(composite)]) == 1
    assert "truckCheck.value: Field required" in capsys.readouterr().err


def test_lines_of_lists_are_read_as_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('[{"toolName": "a"}]\n\n[]\n')
    document = printed(["--labels", str(rows), "--predictions", str(rows)], capsys)
    assert document["samples"] == 2
