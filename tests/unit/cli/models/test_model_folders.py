"""``temper models folders``."""

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
