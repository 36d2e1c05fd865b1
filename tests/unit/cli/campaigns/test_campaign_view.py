"""``temper campaign show``, ``best``, ``report``, ``fork`` and ``rewind``."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer

PATH = "/v1/campaigns/campaign-1"
CAMPAIGN = {
    "id": "campaign-1",
    "object": "campaign",
    "status": "queued",
    "created_at": 1,
    "priority": 0,
    "attempt": 0,
    "base_model": "tiny",
    "scenario": "x",
    "budget": {"loops": 5, "hours": 2.0},
}
BASE = {"loop": 0, "steps": ["base"], "model": "tiny", "search_score": 0.25, "final_score": 0.5}
GOOD = {
    "loop": 1,
    "parent": 0,
    "hypothesis": "sums help",
    "steps": ["direct_exp_gen", "coding", "running", "feedback", "record"],
    "model": "ft:1",
    "search_score": 0.75,
    "final_score": 0.5,
    "comparison": {"samples": 8, "difference": 0.5, "ci95": [0.25, 0.75], "improves": True},
    "accepted": True,
    "judged": 1,
}
FAILED = {"loop": 2, "parent": 1, "steps": [], "accepted": False, "failure": "OOM"}
UNDER_WAY = {"loop": 3, "parent": 1, "steps": ["direct_exp_gen"], "hypothesis": "more sums"}


@pytest.fixture
def gateway(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """A gateway with a campaign of three attempts."""
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.setenv("COLUMNS", "200")
    loops = {"object": "list", "data": [BASE, GOOD, FAILED, UNDER_WAY]}
    server.on(PATH, JSONResponse(CAMPAIGN))
    server.on(f"{PATH}/loops", JSONResponse(loops))
    server.on(f"{PATH}/best", JSONResponse(GOOD))
    server.on(f"{PATH}/report", _report)
    server.on(f"{PATH}/rewind", JSONResponse(CAMPAIGN))
    server.on(f"{PATH}/fork", JSONResponse({**CAMPAIGN, "id": "campaign-2"}))
    return server


def _report(request: Request) -> Response:
    return PlainTextResponse(f"the report as {request.query_params['format']}")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed, with single blanks."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_every_attempt_is_shown_with_its_verdict_and_scores(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", "show", "campaign-1"]) == 0

    *_, base, good, failed, under_way = lines(capsys)
    assert base == "0 base 0.2500 0.5000 tiny"
    assert good == "1 0 accepted 0.7500 0.5000 +0.500 (+0.250 to +0.750) ft:1 sums help"
    assert failed.startswith("2 1 failed: OOM")
    assert under_way == "3 1 under way more sums"


def test_items_that_were_lost_are_named_beside_the_gain(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = {"samples": 6, "difference": 0.5, "ci95": [0.25, 0.75], "improves": True}
    second = {**comparison, "samples": 5, "left_out": 3}
    lost = {**GOOD, "comparison": {**comparison, "left_out": 2, "second_look": second}}
    gateway.on(f"{PATH}/best", JSONResponse(lost))

    assert main(["campaign", "best", "campaign-1"]) == 0

    assert "again +0.500 (+0.250 to +0.750), 3 items left out" in lines(capsys)[-1]


def test_the_best_attempt_is_shown(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["campaign", "best", "campaign-1"]) == 0

    assert lines(capsys)[-1].startswith("1 0 accepted 0.7500")


@pytest.mark.parametrize(
    ("file", "kind"), [(None, "markdown"), ("report.md", "markdown"), ("report.html", "html")]
)
def test_a_report_is_printed_or_written_as_the_file_is_named(
    gateway: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    file: str | None,
    kind: str,
) -> None:
    options = [] if file is None else ["-o", str(tmp_path / file)]

    assert main(["campaign", "report", "campaign-1", *options]) == 0

    printed = capsys.readouterr().out.strip()
    written = printed if file is None else (tmp_path / file).read_text()
    assert written == f"the report as {kind}"


@pytest.mark.parametrize(
    ("command", "campaign", "budget"),
    [("rewind", "campaign-1", {}), ("fork", "campaign-2", {"loops": 5, "hours": 2.0})],
)
def test_a_campaign_goes_back_to_a_step(
    gateway: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    command: str,
    campaign: str,
    budget: dict[str, Any],
) -> None:
    assert main(["campaign", command, "campaign-1", "--loop", "2", "--step", "coding"]) == 0

    assert lines(capsys) == [campaign]
    (sent,) = (each.body for each in gateway.received if each.method == "POST")
    body = json.loads(sent)
    assert (body["loop"], body["step"]) == (2, "coding")
    assert body.get("budget", {}).items() >= budget.items()
