"""``temper KIND start`` and ``temper KIND fields``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.kinds import KINDS
from services.contracts.training.fine_tuning import CreateFineTuningJob
from temper.cli.campaigns.flags import FLAGS
from temper.cli.main import main
from temper.submission.fields import fields_of
from temper.submission.outline import fields_at
from tests.unit.cli.conftest import ScriptedServer

JOB = {"status": "queued", "created_at": 1, "priority": 0, "attempt": 0}
FILE = {"id": "file-1", "bytes": 3, "created_at": 1, "filename": "x", "purpose": "evals"}
EVALUATION = """\
model: tiny
file: items.jsonl
sampling:
  max_tokens: 64
grader:
  type: numeric
"""


def files(request: Request) -> Response:
    """No file is there before it is uploaded."""
    stored = {**FILE, "sha256": "0" * 64}
    return JSONResponse({"data": []} if request.method == "GET" else stored)


@pytest.fixture(autouse=True)
def _gateway(server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/items.jsonl").write_text("{}\n")
    (tmp_path / "here.jsonl").write_text("{}\n")
    (tmp_path / "jobs/job.yaml").write_text(EVALUATION)
    server.on("/v1/files", files)
    evaluation = {**JOB, "id": "eval-1", "object": "evaluation", "model": "tiny", "sampling": {}}
    server.on("/v1/evaluations", JSONResponse(evaluation))


def sent(server: ScriptedServer, path: str) -> dict[str, Any]:
    (request,) = (each for each in server.received if each.path == path and each.method == "POST")
    body: dict[str, Any] = json.loads(request.body)
    return body


def uploaded(server: ScriptedServer) -> list[bytes]:
    return [
        each.body for each in server.received if each.path == "/v1/files" and each.method == "POST"
    ]


def test_options_are_above_the_job_file(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--set", "sampling.max_tokens=9", "--set", "sampling.stop.0=7"]
    options += ["--set", "metadata.run=7", "-m", "team=a"]

    assert main(["evaluation", "start", "-f", "jobs/job.yaml", *options]) == 0

    body = sent(server, "/v1/evaluations")
    assert (body["model"], body["file"], body["grader"]["type"]) == ("tiny", "file-1", "numeric")
    assert (body["sampling"]["max_tokens"], body["sampling"]["stop"]) == (9, ["7"])
    assert body["metadata"] == {"run": "7", "team": "a"}
    assert capsys.readouterr().out == "eval-1\n"


def test_a_job_needs_no_file(server: ScriptedServer) -> None:
    fields = ["--set", "model=tiny", "--set", "file=here.jsonl", "--set", "name=7"]

    assert main(["evaluation", "start", *fields]) == 0

    assert sent(server, "/v1/evaluations")["name"] == "7"
    assert len(uploaded(server)) == 1


def test_a_file_set_by_an_option_is_relative_to_the_working_folder(
    server: ScriptedServer,
) -> None:
    arguments = ["evaluation", "start", "-f", "jobs/job.yaml", "--set", "file=here.jsonl"]

    assert main(arguments) == 0

    (upload,) = uploaded(server)
    assert b'filename="here.jsonl"' in upload


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--set", "sampling.max_tokens=0"], 2, "--set sampling.max_tokens: sampling.max_tokens:"),
        (["--set", "file=none.jsonl"], 2, "--set file: file: 'none.jsonl' is not a file id"),
        (["--set", "model.name=x"], 2, "--set model.name: model is"),
        (["--set", "samples_per_item=3"], 2, "--set samples_per_item: samples_per_item: samples_p"),
        (["--set", "sampels=3"], 2, "--set sampels: sampels: Extra inputs"),
        (["--set", "sampels"], 2, "'sampels' is not PATH=VALUE"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_sent(
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    said: str,
) -> None:
    assert main(["evaluation", "start", "-f", "jobs/job.yaml", *options]) == code

    assert said in capsys.readouterr().err
    assert server.received == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_tokens: 64", "max_tokens: 0", "job.yaml, line 4: sampling.max_tokens: Input"),
        ("type: numeric", "type: numerical", "job.yaml, line 5: grader: Input tag 'numerical'"),
        ("file: items.jsonl", "file: none.jsonl", "job.yaml, line 2: file: 'none.jsonl'"),
        ("model: tiny", "model: tiny\nmetrics: fork", "job.yaml, line 2: metrics: metrics are"),
        ("model: tiny", "models: tiny", "job.yaml: model: Field required"),
        ("model: tiny", "kind: rollout", "job.yaml: kind is 'rollout', not evaluation"),
    ],
)
def test_a_wrong_field_of_a_job_file_is_named_with_its_line(
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    Path("jobs/job.yaml").write_text(EVALUATION.replace(old, new))

    assert main(["evaluation", "start", "-f", "jobs/job.yaml"]) == 1

    assert said in capsys.readouterr().err
    assert server.received == []


def test_a_dry_run_prints_the_request_and_sends_nothing(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluation", "start", "-f", "jobs/job.yaml", "--dry-run"]) == 0

    assert json.loads(capsys.readouterr().out)["sampling"]["max_tokens"] == 64
    assert server.received == []


def test_a_dry_run_of_a_fine_tuning_job_checks_its_data(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "invalid_rows", "message": "x", "rows": [{"row": 3, "message": "no answer"}]}
    check = {**JOB, "id": "check-1", "status": "failed", "training_file": "file-1"}
    check |= {
        "method": {"type": "dpo"},
        "model": "tiny",
        "error": error,
        "max_errors": 1,
        "kind": "check",
    }
    server.on("/v1/checks", JSONResponse(check))
    server.on("/v1/checks/check-1", JSONResponse(check))
    server.on("/v1/jobs/check-1", JSONResponse({**check, "method": "dpo"}))
    fields = ["model=tiny", "training_file=here.jsonl", "method.type=dpo"]
    options = [text for field in fields for text in ("--set", field)]

    assert main(["fine-tuning", "start", *options, "--dry-run"]) == 1

    body = sent(server, "/v1/checks")
    assert (body["training_file"], body["method"]["type"]) == ("file-1", "dpo")
    assert "no answer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("method", "recipe", "shown"),
    [
        ("reinforcement", "dapo", {"overlong": {"buffer": 4096, "factor": 1.0}}),
        ("ppo", "ppo", {"gae_lambda": 0.95, "epochs": 4}),
    ],
)
def test_a_dry_run_of_an_online_job_prints_what_its_recipe_stands_for(
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    method: str,
    recipe: str,
    shown: dict[str, Any],
) -> None:
    settings: dict[str, Any] = {"rewards": [{"name": "a", "reward": {"type": "exact"}}]}
    settings |= {"hyperparameters": {"recipe": recipe, "loss": {"entropy_bonus": 0.01}}}
    job = {"model": "tiny", "training_file": "file-1", "method": {"type": method, method: settings}}
    Path("jobs/job.yaml").write_text(json.dumps(job))

    assert main(["fine-tuning", "start", "-f", "jobs/job.yaml", "--dry-run"]) == 0

    printed = json.loads(capsys.readouterr().out)
    found = printed["method"][method]["hyperparameters"]
    assert found == {**found, **shown, "recipe": recipe}
    assert found["loss"] == {**found["loss"], "tis_cap": None, "entropy_bonus": 0.01}
    assert server.received == []
    again = CreateFineTuningJob.model_validate(printed)
    assert again == CreateFineTuningJob.model_validate(job)


def test_a_job_is_followed_and_its_exit_code_returned(server: ScriptedServer) -> None:
    failed = {**JOB, "id": "eval-1", "kind": "evaluation", "status": "failed"}
    server.on("/v1/jobs/eval-1", JSONResponse(failed))
    server.on("/v1/jobs/eval-1/events", JSONResponse({"data": []}))
    server.on("/v1/evaluations/eval-1", JSONResponse({**failed, "model": "m", "sampling": {}}))

    assert main(["evaluation", "start", "-f", "jobs/job.yaml", "--follow"]) == 1


@pytest.mark.parametrize(
    ("kind", "route", "fields", "body", "unknown"),
    [
        ("merge", "merge", ["suffix=one"], {"suffix": "one"}, "name"),
        ("export", "export", ["destination=hf://a/b"], {"destination": "hf://a/b"}, "name"),
        ("serve", "deploy", ["keep_warm=true"], {"keep_warm": True}, "adapter"),
    ],
)
def test_a_job_of_a_model_is_started_at_the_model(
    server: ScriptedServer,
    kind: str,
    route: str,
    fields: list[str],
    body: dict[str, Any],
    unknown: str,
) -> None:
    job = {**JOB, "id": "job-1", "model": "tiny", "destination": "hf://a/b", "keep_warm": True}
    server.on(f"/v1/models/tiny/{route}", JSONResponse(job))
    options = [text for field in ["model=tiny", *fields] for text in ("--set", field)]

    assert main([kind, "start", *options]) == 0
    assert body.items() <= sent(server, f"/v1/models/tiny/{route}").items()
    assert main([kind, "start", *options, "--set", f"{unknown}=x"]) == 2


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: str(kind.name))
def test_the_fields_of_every_kind_are_listed(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([kind.name, "fields", "--json"]) == 0
    top = json.loads(capsys.readouterr().out)
    assert main([kind.name, "fields", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert top["kind"] == kind.name
    every = {field.path: field for field in fields_of(kind.request)}
    assert {each["path"] for each in top["data"]} == kind.given_fields
    assert all(each == asdict(every[each["path"]]) for each in top["data"])
    assert len(lines) > len(top["data"])


def test_a_field_has_its_type_bounds_default_and_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["campaign", "fields", "budget", "--json"]) == 0
    fields = {each["path"]: each for each in json.loads(capsys.readouterr().out)["data"]}
    assert main(["evaluation", "fields", "grader", "--json"]) == 0
    graders = {each["path"]: each for each in json.loads(capsys.readouterr().out)["data"]}

    loops = fields["budget.loops"]
    assert (loops["type"], loops["default"], loops["bounds"]) == ("integer", "3", ">= 1, <= 1000")
    assert "GPU hours" in fields["budget.gpu_hours"]["description"]
    assert graders["grader.pattern"]["when"] == "type=regex"
    assert "numeric" in graders["grader.type"]["type"].split("|")


def test_an_unknown_field_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "fields", "budgets"]) == 2

    assert "no field 'budgets'" in capsys.readouterr().err


def test_a_missing_field_is_named_with_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "export", "tiny"]) == 2

    assert "--to: destination: Field required" in capsys.readouterr().err


def test_an_option_has_the_type_and_the_bounds_of_its_field() -> None:
    every = {field.path: field for field in fields_of(CreateCampaign)}
    paths = {flag if isinstance(flag, str) else flag.path for flag in FLAGS.values()}

    paths -= {"grader.type"}  # which is one of several objects'
    assert fields_at(CreateCampaign, paths) == {path: every[path] for path in paths}
