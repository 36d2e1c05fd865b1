import hashlib
import json
import socket
import time
from pathlib import Path

import pytest
from fastapi.responses import JSONResponse

from services.contracts.version import VERSION
from temper.cli.main import main
from tests.unit.cli.conftest import ScriptedServer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)


def test_help_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "submit" in capsys.readouterr().out


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"temper {VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["wait"],
        ["ps", "--status", "happy"],
        ["ps", "--metadata", "no-equals"],
        ["models", "register", "m"],
        ["serve", "trainer", "--port", "1"],
        ["submit", "missing.yaml"],
    ],
)
def test_invalid_usage_is_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("temper: error: ")
    assert said.err.count("\n") == 1


def test_a_gateway_error_is_one_line_with_code_and_request_id(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"error": {"message": "no\nfile", "type": "x", "param": "id", "code": "file_not_found"}}
    server.on("/v1/files/f", JSONResponse(body, 404, headers={"x-request-id": "req-9"}))

    assert main(["files", "show", "f", "--json"]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "temper: error: no file (file_not_found, param id, request req-9)\n"


def test_ps_names_services_that_do_not_run(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    failed = {
        "id": "trainer",
        "status": "failed",
        "exits": 7,
        "reason": "trainer exited with exit code 3",
        "last_lines": ["first", "second", "third", "out of luck"],
        "retry_at": int(time.time()) + 90,
    }
    server.on("/v1/jobs", JSONResponse({"data": []}))
    server.on("/v1/services", JSONResponse({"data": [{"id": "api", "status": "running"}, failed]}))

    assert main(["ps"]) == 0

    said = capsys.readouterr().err
    assert "trainer failed (exits: 7): trainer exited with exit code 3; next try in 1m" in said
    assert "out of luck" in said
    assert "first" not in said
    assert "api" not in said


def test_an_unreachable_gateway_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as kept:  # a reserved port without a listener
        kept.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TEMPER_API_URL", f"http://127.0.0.1:{kept.getsockname()[1]}")

        assert main(["ps"]) == 1
    assert "temper up starts a local stack (unreachable)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        ("ps", "TEMPER_GRACE_SECONDS", "soon"),
        ("up", "TEMPER_API_URL", "http://host:99999"),
    ],
)
def test_an_invalid_setting_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)

    assert main([command]) == 1
    assert name in capsys.readouterr().err


def test_a_new_key_is_printed_with_its_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["keys", "new", "--json"]) == 0

    made = json.loads(capsys.readouterr().out)
    assert made["sha256"] == hashlib.sha256(made["key"].encode()).hexdigest()
    assert len(made["key"]) > 40


def test_a_download_ignores_folders_in_the_file_name(
    server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file = {"id": "f", "bytes": 2, "created_at": 1, "filename": "../evil", "purpose": "evals"}
    server.on("/v1/files/f", JSONResponse({**file, "sha256": "0" * 64}))
    server.on("/v1/files/f/content", JSONResponse({}))

    assert main(["files", "download", "f"]) == 0

    assert (folder / "evil").read_text() == "{}"
    assert not (tmp_path / "evil").exists()
