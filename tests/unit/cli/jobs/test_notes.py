"""``temper notes``: notes in a terminal."""

import json

import pytest
from fastapi import Response

from services.contracts.base import Deleted, Page
from services.contracts.notes import Note
from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer

PATH = "/v1/jobs/rollout-1/notes"
NOTE = Note(
    id="note-1",
    job_id="rollout-1",
    trajectory_id="traj-0-1",
    text="odd\x1b[2J\nreply",
    created_at=0,
)


@pytest.fixture
def gateway(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    return server


def test_notes_are_listed_without_control_characters(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.on(PATH, Response(Page[Note](data=[NOTE]).model_dump_json()))

    assert main(["notes", "rollout-1"]) == 0

    heading, *text = capsys.readouterr().out.splitlines()
    assert heading.startswith("note-1, ")
    assert heading.endswith(" ago about traj-0-1:")
    assert heading.count("ago") == 1
    assert text == ["    odd\\x1b[2J", "    reply"]


def test_a_note_is_written_and_deleted(gateway: ScriptedServer) -> None:
    gateway.on(PATH, Response(NOTE.model_dump_json()))
    gateway.on(
        f"{PATH}/note-1", Response(Deleted(id="note-1", object="job.note").model_dump_json())
    )

    assert main(["notes", "rollout-1", "--add", "odd", "-t", "traj-0-1"]) == 0
    assert main(["notes", "rollout-1", "--remove", "note-1"]) == 0

    written, deleted = gateway.received
    assert json.loads(written.body) == {"text": "odd", "trajectory_id": "traj-0-1"}
    assert (deleted.method, deleted.path) == ("DELETE", f"{PATH}/note-1")


@pytest.mark.parametrize("text", ["", " ", "x" * 4001])
def test_an_unusable_note_is_not_sent(gateway: ScriptedServer, text: str) -> None:
    assert main(["notes", "rollout-1", "--add", text]) == 2
    assert gateway.received == []
