"""``temper evals report``: evaluations as a page, a workbook, Markdown and JSON."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from fastapi import Request
from fastapi.responses import JSONResponse

from services.contracts.evaluation.comparisons import EvaluationComparison, PairedComparison
from services.contracts.evaluation.results import SampleResult
from temper.cli.main import main
from tests.support.evaluation.evaluation_view import evaluation, evaluation_of_several
from tests.unit.cli.conftest import ScriptedServer

HOSTILE = '<script>alert("x")</script> | =1+1\n\u202e'
COMPARED = PairedComparison(
    candidate="eval-2",
    items=3,
    left_out=0,
    baseline_errors=1,
    candidate_errors=0,
    baseline_mean=1 / 3,
    candidate_mean=2 / 3,
    difference=1 / 3,
    stderr=0.2,
    ci95=(-0.1, 0.7),
    test="mcnemar",
    p_value=0.5,
    p_adjusted=0.5,
    gained=2,
    lost=1,
    gained_items=[1, 2],
    lost_items=[0],
)


MEASURES = {
    "absolute_error": {
        **{"mean": 0.25, "samples": 4, "stderr": 0.1, "ci95": [0.054, 0.446]},
        "lower_is_better": True,
    },
    "valid": {"mean": 1.0, "samples": 5},
}


def row(index: int, answer: str | None, *, correct: bool | None) -> dict[str, Any]:
    error = None if correct is not None else "the model did not answer"
    result = SampleResult(
        id=str(index),
        index=index,
        prompt="question",
        tags=["easy", "sums"],
        gold=[f"gold {index}"],
        answer=answer,
        score=None if correct is None else float(correct),
        correct=correct,
        error=error,
        completion_tokens=10 * index,
    )
    return result.model_dump(mode="json")


@pytest.fixture(autouse=True)
def _gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    before = [row(0, "gold 0", correct=True), row(1, HOSTILE, correct=False)]
    before.append(row(2, None, correct=None))
    after = [row(0, "no", correct=False), row(1, "gold 1", correct=True)]
    after.append(row(2, "gold 2", correct=True))
    for name, model, rows in (("eval-1", "base", before), ("eval-2", HOSTILE, after)):
        shown = evaluation(name, model, "f", 0.5).model_dump(mode="json")
        if name == "eval-2":
            overlap = {"file": "file-9", "compared": 10, "items": 3, "rows": 100}
            shown["metrics"]["training_overlap"] = [overlap]
            shown["metrics"]["measures"] = {"mol_und/fg_count": MEASURES}
            shown["metrics"]["cut_off"] = 4
        server.on(f"/v1/evaluations/{name}", JSONResponse(shown))
        page = {"object": "list", "data": rows, "has_more": False}
        server.on(f"/v1/evaluations/{name}/results", JSONResponse(page))
    found = EvaluationComparison(baseline="eval-1", value="correct", comparisons=[COMPARED])
    server.on("/v1/evaluations/eval-1/compare", JSONResponse(found.model_dump(mode="json")))


class Page(HTMLParser):
    """The texts of a page's cells and the tags in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.labels: list[str] = []
        self._is_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.labels += [value for name, value in attrs if name == "aria-label" and value]
        self._is_cell = tag in {"td", "th"}
        if self._is_cell:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self.cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = False


def test_a_page_holds_plots_and_hostile_text_as_text(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.html"]) == 0

    text = (tmp_path / "report.html").read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert "http" not in text, "the page loads nothing"
    assert HOSTILE in page.cells
    assert page.labels[0].startswith("Accuracy, 95 % interval. base (eval-1): 0.5000 (0.0000 to 1")
    assert "eval-1: 1 correct, 1 wrong, 1 failed; at most 1 in one bar" in page.labels[1]
    changes = page.cells[page.cells.index("baseline answer") + 2 :][:21]
    assert changes[:7] == ["eval-2", "", "0", "lost", "gold 0", "gold 0", "no"]
    assert changes[7:14] == ["eval-2", "", "1", "gained", "gold 1", HOSTILE, "gold 1"]
    assert changes[14:18] == ["eval-2", "", "2", "gained"]
    assert changes[18:] == ["gold 2", "the model did not answer", "gold 2"]


def test_a_workbook_has_a_sheet_for_each_table(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.xlsx"]) == 0

    book = openpyxl.load_workbook(tmp_path / "report.xlsx")
    assert book.sheetnames == ["Summary", "Measures", "Comparison", "Changes", "Rows"]
    summary = [dict(zip(*pair, strict=True)) for pair in _pairs(book["Summary"])]
    assert [each["in training files"] for each in summary] == [None, "3 in file-9"]
    cut_off = [(each["cut off"], each["cut off share"], each["left out"]) for each in summary]
    assert cut_off == [(None, None, 0), (4, 0.4, 0)], "eval-1 is of a version that did not count"
    rows = [dict(zip(*pair, strict=True)) for pair in _pairs(book["Rows"])]
    assert [each["outcome"] for each in rows] == [
        *("correct", "wrong", "failed"),
        *("wrong", "correct", "correct"),
    ]
    assert {(each["prompt"], each["tags"]) for each in rows} == {("question", "easy, sums")}
    (compared,) = [dict(zip(*pair, strict=True)) for pair in _pairs(book["Comparison"])]
    assert (compared["gained"], compared["lost"], compared["test"]) == (2, 1, "mcnemar")


def test_measures_have_their_direction_and_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.xlsx"]) == 0
    sheet = openpyxl.load_workbook(tmp_path / "report.xlsx")["Measures"]
    assert list(sheet.iter_rows(min_row=2, values_only=True)) == [
        ("eval-2", None, "mol_und/fg_count", "absolute_error", "lower", 0.25, 0.054, 0.446, 4),
        ("eval-2", None, "mol_und/fg_count", "valid", "higher", 1, None, None, 5),
    ]

    assert main(["evals", "show", "eval-2"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "fg_count" in line]
    of_error = ["absolute_error", "(lower", "is", "better)", "0.2500", "0.0540", "to", "0.4460"]
    assert shown == [
        ["mol_und/fg_count", *of_error, "4"],
        ["mol_und/fg_count", "valid", "1.0000", "5"],
    ]


def _pairs(sheet: Any) -> list[tuple[Any, Any]]:
    heading, *rows = sheet.iter_rows(values_only=True)
    return [(heading, row) for row in rows]


def test_items_in_training_files_are_shown_with_the_metrics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evals", "show", "eval-2"]) == 0
    assert "in training files" in capsys.readouterr().out


def test_answers_that_were_cut_off_are_shown_with_their_share(
    capsys: pytest.CaptureFixture[str], server: ScriptedServer
) -> None:
    several = evaluation_of_several("eval-3", "m", {"a": 0.5, "b": 0.5}).model_dump(mode="json")
    several["benchmarks"][1]["metrics"]["cut_off"] = 3
    page = {"object": "list", "data": [], "has_more": False}
    server.on("/v1/evaluations/eval-3", JSONResponse(several))
    server.on("/v1/evaluations/eval-3/results", JSONResponse(page))

    shown = {}
    for name in ("eval-1", "eval-2", "eval-3"):
        assert main(["evals", "show", name]) == 0
        shown[name] = capsys.readouterr().out

    assert "4 (40.0%)" in shown["eval-2"]
    assert "cut off" not in shown["eval-1"], "it was not counted"
    (heading,) = [line for line in shown["eval-3"].splitlines() if "CUT OFF" in line]
    assert "FAILED" in heading
    assert shown["eval-3"].count("3 (30.0%)") == 1


def test_markdown_keeps_every_row_on_a_line(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "-o", "report.md"]) == 0

    lines = (tmp_path / "report.md").read_text().splitlines()
    assert "## Comparison" not in lines
    (wrong,) = [line for line in lines if "| wrong | 0.0000 |" in line]
    assert wrong.startswith("| eval-1 |  | 1 | 0 | wrong | 0.0000 | gold 1 |")
    assert '&lt;script&gt;alert("x")&lt;/script&gt; \\| =1+1' in wrong


def test_json_has_the_rows_by_evaluation(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.json", "--rows", "2"]) == 0

    document = json.loads((tmp_path / "report.json").read_text())
    assert [each["id"] for each in document["evaluations"]] == ["eval-1", "eval-2"]
    assert [each["answer"] for each in document["rows"]["eval-2"]][:2] == ["no", "gold 1"]
    assert document["comparison"]["comparisons"][0]["gained_items"] == [1, 2]


def test_benchmarks_of_one_evaluation_have_separate_rows_and_changes(
    tmp_path: Path, server: ScriptedServer
) -> None:
    both = {"a": 0.5, "b": 1.0}
    for name in ("eval-1", "eval-2"):
        found = evaluation_of_several(name, "base", both)
        server.on(f"/v1/evaluations/{name}", JSONResponse(found.model_dump(mode="json")))

    def rows(request: Request) -> JSONResponse:
        benchmark = request.query_params["benchmark"]
        right = row(0, f"{benchmark} of {request.url.path.split('/')[3]}", correct=True)
        data = [{**right, "benchmark": benchmark}]
        return JSONResponse({"object": "list", "data": data, "has_more": False})

    for name in ("eval-1", "eval-2"):
        server.on(f"/v1/evaluations/{name}/results", rows)
    changed = {"gained": 1, "gained_items": [0], "lost": 0, "lost_items": []}
    pairs = [COMPARED.model_copy(update={**changed, "benchmark": name}) for name in both]
    compared = EvaluationComparison(baseline="eval-1", value="correct", comparisons=pairs)
    server.on("/v1/evaluations/eval-1/compare", JSONResponse(compared.model_dump(mode="json")))

    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.xlsx"]) == 0

    book = openpyxl.load_workbook(tmp_path / "report.xlsx")
    sheets = {
        name: [dict(zip(*pair, strict=True)) for pair in _pairs(book[name])]
        for name in book.sheetnames
    }
    summary = [
        (each["evaluation"], each["benchmark"], each["accuracy"]) for each in sheets["Summary"]
    ]
    assert summary == [
        *(("eval-1", name, accuracy) for name, accuracy in both.items()),
        *(("eval-2", name, accuracy) for name, accuracy in both.items()),
    ]
    assert [each["benchmark"] for each in sheets["Rows"]] == ["a", "b", "a", "b"]
    assert [(each["baseline answer"], each["candidate answer"]) for each in sheets["Changes"]] == [
        ("a of eval-1", "a of eval-2"),
        ("b of eval-1", "b of eval-2"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval-1", "-o", "report.pdf"], "report.pdf is not one of .html, .xlsx, .md, .json"),
        (["eval-1", "eval-1", "-o", "report.md"], "an evaluation is named twice"),
        (["eval-3", "-o", "report.md"], "eval-3 is failed, not succeeded"),
    ],
)
def test_invalid_input_is_rejected_and_writes_nothing(
    tmp_path: Path,
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    failed = evaluation("eval-3", "m", "f", 0.5, status="failed", metrics=None)
    server.on("/v1/evaluations/eval-3", JSONResponse(failed.model_dump(mode="json")))

    assert main(["evals", "report", *arguments]) == 2

    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert list(tmp_path.glob("report*")) == []


def test_the_mean_of_several_benchmarks_or_why_there_is_none(
    tmp_path: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    mean = {"mean": 0.75, "stderr": 0.05, "ci95": [0.6, 0.85]}
    averages = {
        "eval-1": {"metrics": {"a": "accuracy", "b": "item_score"}, "mean": mean},
        "eval-2": {"missing": "a and b have the same items"},
    }
    for name, average in averages.items():
        found = evaluation_of_several(name, "m", {"a": 0.5, "b": 1.0}, macro_average=average)
        server.on(f"/v1/evaluations/{name}", JSONResponse(found.model_dump(mode="json")))

    assert main(["evals", "report", "eval-1", "eval-2", "-o", "report.xlsx"]) == 0
    sheet = openpyxl.load_workbook(tmp_path / "report.xlsx")["Means"]
    assert list(sheet.iter_rows(min_row=2, values_only=True)) == [
        ("eval-1", "m", 2, "accuracy, item_score", 0.75, 0.05, 0.6, 0.85, None),
        ("eval-2", "m", 2, *[None] * 5, "a and b have the same items"),
    ]
    assert main(["evals", "report", "eval-1", "-o", "report.html"]) == 0
    page = Page((tmp_path / "report.html").read_text())
    assert "m (mean of benchmarks, eval-1): 0.7500 (0.6000 to 0.8500)" in page.labels[0]

    for name, text in (
        ("eval-1", "0.7500 (95 % interval 0.6000 to 0.8500, standard error 0.0500)"),
        ("eval-2", "no mean of the benchmarks: a and b have the same items"),
    ):
        assert main(["evals", "show", name]) == 0
        assert text in capsys.readouterr().out


def test_disputed_answers_have_a_separate_table(tmp_path: Path, server: ScriptedServer) -> None:
    disputed = row(1, "408/2", correct=False) | {"tags": ["disputed"]}
    page = {"object": "list", "data": [row(0, "gold 0", correct=True), disputed], "has_more": False}
    server.on("/v1/evaluations/eval-1/results", JSONResponse(page))
    assert main(["evals", "report", "eval-1", "-o", "report.xlsx"]) == 0

    book = openpyxl.load_workbook(tmp_path / "report.xlsx")
    rows = [dict(zip(*pair, strict=True)) for pair in _pairs(book["Disputed"])]
    assert [(each["row"], each["outcome"], each["answer"]) for each in rows] == [
        (1, "wrong", "408/2")
    ]


def test_the_main_metric_is_shown_with_the_values_that_are_better(
    tmp_path: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = {"grader": {"type": "numeric"}, "metric": "mean_score", "direction": "minimize"}
    shown = evaluation("eval-1", "base", "f", 0.5, benchmark=benchmark)
    assert shown.metrics is not None
    shown.metrics.mean_score = 3.5
    server.on("/v1/evaluations/eval-1", JSONResponse(shown.model_dump(mode="json")))
    assert main(["evals", "report", "eval-1", "-o", "report.xlsx"]) == 0

    book = openpyxl.load_workbook(tmp_path / "report.xlsx")
    (summary,) = [dict(zip(*pair, strict=True)) for pair in _pairs(book["Summary"])]
    found = summary["main metric"], summary["better"], summary["value"]
    assert found == ("mean_score", "lower", 3.5)

    assert main(["evals", "show", "eval-1"]) == 0
    assert "mean_score 3.5000, lower is better" in capsys.readouterr().out
