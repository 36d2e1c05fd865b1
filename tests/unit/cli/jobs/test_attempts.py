"""``temper attempts``: a job's attempts, in a terminal."""

import json

import pytest
from fastapi import Response

from services.contracts.base import Page
from services.contracts.jobs import Attempt, JobStatus
from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer

PATH = "/v1/jobs/ftjob-1/attempts"
COMMON = {"host": "one", "devices": ["GPU-7", "GPU-8"], "started_at": 100}
ATTEMPTS = [
    Attempt(id="4", attempt=2, worker="trainer@one", **COMMON),
    Attempt(
        id="2",
        attempt=1,
        worker="odd\x1b[2J",
        ended_at=165,
        became=JobStatus.QUEUED,
        reason="the worker was lost",
        **COMMON,
    ),
]


@pytest.fixture
def gateway(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    server.on(PATH, Response(Page[Attempt](data=ATTEMPTS).model_dump_json()))
    return server


def test_attempts_are_listed_with_devices_and_outcomes(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attempts", "ftjob-1"]) == 0

    heading, latest, first = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["ATTEMPT", "LEASE", "WORKER", "DEVICES"]
    assert latest.split()[:5] == ["2", "4", "trainer@one", "GPU-7,", "GPU-8"]
    assert latest.split()[-2:] == ["ago", "running"]
    assert "odd\\x1b[2J" in first
    assert first.endswith("queued   the worker was lost")
    assert "1m05s" in first


def test_attempts_are_printed_as_the_route_answers(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attempts", "ftjob-1", "--json"]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in printed["data"]] == ["4", "2"]
