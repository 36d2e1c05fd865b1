"""``temper evals report`` of evaluations with tools: their conversations as text."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from fastapi.responses import JSONResponse

from services.contracts.evaluation.results import SampleResult, ToolUse
from services.contracts.rollouts.trajectories import CallOutcome, Trajectory
from services.metrics.conversations import MAX_TEXT, steps
from temper.cli.main import main
from tests.support.evaluation.evaluation_view import evaluation
from tests.support.trajectories import call, trajectory
from tests.unit.cli.conftest import ScriptedServer

HOSTILE = '</pre></details><script>alert("x")</script>\n=1+1\u202e'


def row(index: int, name: str) -> dict[str, Any]:
    tools = ToolUse(trajectory=name, turns=1, calls=1, failed_calls=0, malformed_calls=0)
    found = SampleResult(
        id=f"r{index}", index=index, gold=["7"], answer="7", correct=index == 0, tools=tools
    )
    return found.model_dump(mode="json")


def played(index: int) -> Trajectory:
    searched = call(HOSTILE, arguments={"q": HOSTILE, "limit": 3}, shown=HOSTILE)
    dropped = call("browse", CallOutcome.DROPPED, shown=None)
    asked = [{"role": "user", "content": f"question {index} {HOSTILE}"}]
    return trajectory(index, calls=[searched, dropped], malformed=1, messages=asked)


@pytest.fixture(autouse=True)
def _gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    shown = evaluation("eval-1", "m", "f", 0.5)
    server.on("/v1/evaluations/eval-1", JSONResponse(shown.model_dump(mode="json")))
    rows = [row(index, f"traj-{index}-0") for index in range(2)]
    page = {"object": "list", "data": rows, "has_more": False}
    server.on("/v1/evaluations/eval-1/results", JSONResponse(page))
    for index in range(2):
        path = f"/v1/evaluations/eval-1/trajectories/traj-{index}-0"
        server.on(path, JSONResponse(played(index).model_dump(mode="json")))


class Folds(HTMLParser):
    """The summaries of a page's folding blocks, each with its depth, and the texts in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.summaries: list[tuple[int, str]] = []
        self.texts: list[str] = []
        self._depth = 0
        self._tag = ""
        self.feed(text)
        assert self._depth == 0, "every block is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._depth += tag == "details"
        self._tag = tag
        if tag == "summary":
            self.summaries.append((self._depth, ""))
        elif tag == "pre":
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self._tag == "summary":
            depth, text = self.summaries[-1]
            self.summaries[-1] = (depth, text + data)
        elif self._tag == "pre":
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "details"
        self._tag = ""


def test_a_page_folds_each_conversation_and_each_turn(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "-o", "report.html"]) == 0

    page = Folds((tmp_path / "report.html").read_text())
    assert page.tags.isdisjoint({"script", "link", "img"})
    assert page.summaries[:3] == [
        (1, "eval-1, row 0: correct, turns: 1, calls: 1, answered"),
        (2, "prompt"),
        (2, f"turn 1, calls of {HOSTILE}, browse"),
    ]
    assert page.summaries[3] == (1, "eval-1, row 1: wrong, turns: 1, calls: 1, answered")
    assert page.texts[:4] == [f"question 0 {HOSTILE}", "answer 0.0", "{", f"q: {HOSTILE}\nlimit: 3"]
    assert page.texts[4] == HOSTILE, "what the model read"


def test_a_workbook_has_a_line_for_each_text_of_a_conversation(tmp_path: Path) -> None:
    assert main(["evals", "report", "eval-1", "-o", "report.xlsx"]) == 0

    sheet = openpyxl.load_workbook(tmp_path / "report.xlsx")["Conversations"]
    _, *lines = sheet.iter_rows(values_only=True)
    first = [line[4:] for line in lines if line[2] == 0]
    assert [each[:3] for each in first] == [
        ("correct", 0, "user"),
        ("correct", 1, "assistant: 2 tokens, stop"),
        ("correct", 1, "unreadable call: torn"),
        ("correct", 1, f"call of {HOSTILE}: answered in 0.5 s"),
        ("correct", 1, f"result of {HOSTILE}"),
        ("correct", 1, "call of browse: not run"),
    ]
    assert first[4][3] == HOSTILE


def test_markdown_and_json_have_the_conversations_too(tmp_path: Path) -> None:
    for name in ("report.md", "report.json"):
        assert main(["evals", "report", "eval-1", "-o", name]) == 0

    text = (tmp_path / "report.md").read_text()
    assert "## Conversations" in text
    assert "<script>" not in text
    kept = json.loads((tmp_path / "report.json").read_text())["conversations"]
    assert [(each["evaluation"], each["row"], each["id"]) for each in kept] == [
        ("eval-1", "r0", "traj-0-0"),
        ("eval-1", "r1", "traj-1-0"),
    ]
    assert kept[0]["turns"][0]["calls"][0]["shown"] == HOSTILE
    assert "response_token_ids" not in kept[0]


def test_a_report_counts_omitted_conversations(tmp_path: Path, server: ScriptedServer) -> None:
    asked = ["evals", "report", "eval-1", "-o", "report.html", "--conversations", "1"]
    assert main(asked) == 0

    assert "1 of 2 conversations are shown." in (tmp_path / "report.html").read_text()
    assert not [each for each in server.received if each.path.endswith("traj-1-0")]


def test_a_long_text_is_truncated_with_a_note() -> None:
    long = trajectory(messages=[{"role": "user", "content": "x" * (MAX_TEXT + 1234)}])

    prompt = next(steps(long))
    assert prompt.text == f"{'x' * MAX_TEXT}\n[1,234 more characters]"
