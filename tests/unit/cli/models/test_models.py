"""``temper models``: folders that can be registered, and the end of a model."""

import pytest
from fastapi.responses import JSONResponse

from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer


def test_folders_are_listed_with_what_is_wrong_with_them(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    folders = [
        {"id": "tiny", "kind": "full", "bytes": 2048, "models": ["mine"]},
        {"id": "broken", "kind": None, "bytes": 0, "problem": "has no config.json", "models": []},
    ]
    server.on("/v1/model_folders", JSONResponse({"object": "list", "data": folders}))

    assert main(["models", "folders"]) == 0

    head, whole, broken = capsys.readouterr().out.splitlines()
    assert head.split() == ["FOLDER", "KIND", "SIZE", "REGISTERED", "AS", "PROBLEM"]
    assert whole.split()[:2] == ["tiny", "full"]
    assert whole.split()[-1] == "mine"
    assert broken.endswith("has no config.json")


TRAINED = {
    "id": "ft:base:temper::1",
    "created": 1,
    "owned_by": "temper",
    "kind": "full",
    "lineage": {
        "job_id": "ftjob-1",
        "parent": "base",
        "seed": 1,
        "arguments": {},
        "stop_token_ids": [],
        "library_versions": {},
    },
}


def test_weights_that_a_job_made_are_deleted_on_demand_alone(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    name = str(TRAINED["id"])
    deleted = {"id": name, "object": "model", "deleted": True}
    server.on(f"/v1/models/{name}", JSONResponse(TRAINED), JSONResponse(deleted))

    assert main(["models", "delete", name]) == 2
    assert "cannot be restored" in " ".join(capsys.readouterr().err.split())
    assert [each.method for each in server.received] == ["GET"]
    server.on(f"/v1/models/{name}", JSONResponse(TRAINED), JSONResponse(deleted))
    assert main(["models", "delete", name, "--weights"]) == 0

    assert server.received[-1].method == "DELETE"
    assert capsys.readouterr().out.strip() == f"deleted {name} and its weights"
