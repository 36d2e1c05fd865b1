"""``temper check``: its options are fields of the request."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer

CHECK: dict[str, Any] = {
    "id": "check-1",
    "kind": "check",
    "status": "succeeded",
    "created_at": 1,
    "priority": 0,
    "attempt": 1,
    "training_file": "file-1",
    "model": None,
    "method": {"type": "supervised"},
    "max_errors": 100,
}


def stored(request: Request) -> Response:
    """No file is there before it is uploaded."""
    file = {"id": "file-1", "bytes": 3, "created_at": 1, "filename": "x", "purpose": "fine-tune"}
    found: dict[str, Any] = {"data": []}
    return JSONResponse(found if request.method == "GET" else file | {"sha256": "0" * 64})


@pytest.fixture(autouse=True)
def _gateway(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("{}\n")
    server.on("/v1/files", stored)
    server.on("/v1/checks", JSONResponse(CHECK))
    server.on("/v1/checks/check-1", JSONResponse(CHECK))
    server.on("/v1/jobs/check-1", JSONResponse(CHECK | {"method": "supervised"}))


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ([], {"method": {"type": "supervised"}, "model": None, "max_errors": 100}),
        (["--model", "tiny", "--max-errors", "5"], {"model": "tiny", "max_errors": 5}),
        (
            ["-m", "dpo", "--hyperparameters", '{"beta": 0.5}'],
            {"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.5}}}},
        ),
        (
            ["-m", "dpo", "--set", "method.dpo.hyperparameters.beta=0.5"],
            {"method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.5}}}},
        ),
    ],
)
def test_options_set_fields_of_the_request(
    server: ScriptedServer, options: list[str], fields: dict[str, Any]
) -> None:
    assert main(["check", "rows.jsonl", *options]) == 0

    (sent,) = (json.loads(each.body) for each in server.received if each.path == "/v1/checks")
    assert sent["training_file"] == "file-1"
    assert {name: _within(fields[name], sent[name]) for name in fields} == fields


def _within(wanted: Any, found: Any) -> Any:
    """The part of ``found`` whose keys ``wanted`` has."""
    if not isinstance(wanted, dict):
        return found
    return {name: _within(inner, found[name]) for name, inner in wanted.items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["rows.jsonl", "--method", "ppo"], "ppo trains online, on prompts"),
        (["rows.jsonl", "--method", "other"], "--method: method.type: "),
        (["rows.jsonl", "--hyperparameters", "{"], "--hyperparameters: "),
        (["rows.jsonl", "--hyperparameters", '{"no": 1}'], "--hyperparameters: "),
        (["missing.jsonl"], "'missing.jsonl' is not a file id"),
    ],
)
def test_options_that_fit_no_request_are_named(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["check", *options]) == 2

    assert message in " ".join(capsys.readouterr().err.split())
    assert [each for each in server.received if each.path == "/v1/checks"] == []
