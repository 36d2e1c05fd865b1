"""/v1/checks, as clients see them: the validation of a file by a real trainer's worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from temper.cli.main import main
from tests.support.models.template_kinds import WITHOUT_CALLS, tokenizer
from tests.support.processes import running, running_gateway
from tests.support.waiting import wait_for

ROW = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[httpx.Client]:
    """A client of a gateway with a trainer's worker."""
    folder = tmp_path_factory.mktemp("checks")
    settings = {"TEMPER_HOME": str(home), "TEMPER_RECONCILE_SECONDS": "0.5"}
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        running("services.trainer", [], settings, folder / "trainer.log"),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def upload(http: httpx.Client, rows: list[Any], purpose: str = "fine-tune") -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows)
    form = {"purpose": purpose}
    answer = http.post("/v1/files", data=form, files={"file": ("rows.jsonl", content)})
    return str(answer.json()["id"])


def ended(http: httpx.Client, check: dict[str, Any]) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        job: dict[str, Any] = http.get(f"/v1/checks/{check['id']}").json()
        return job if job["finished_at"] is not None else None

    return wait_for(probe, "the check has ended")


def test_a_valid_file_has_a_report(http: httpx.Client) -> None:
    file = upload(http, [ROW, {**ROW, "note": "x"}])
    made = http.post("/v1/checks", json={"training_file": file}).json()

    done = ended(http, made)

    assert made["id"].startswith("check-")
    assert (done["object"], done["status"]) == ("file.check", "succeeded")
    report = done["report"]
    assert (report["rows"], report["layout"], report["ignored_columns"]) == (2, "chat", ["note"])
    assert report["lengths"]["unit"] == "characters"
    assert http.get(f"/v1/jobs/{made['id']}/request").json()["path"] == "/v1/checks"


def test_the_rows_that_would_be_held_out_are_counted(http: httpx.Client) -> None:
    turns = ROW["messages"]
    rows = [{"messages": [{**turns[0], "content": f"Question {n}"}, *turns[1:]]} for n in range(10)]
    arguments = {"val_size": 0.2, "eval_steps": 5}
    method = {
        "type": "supervised",
        "supervised": {"hyperparameters": {"llamafactory": arguments}},
    }
    body = {"training_file": upload(http, rows), "method": method}

    report = ended(http, http.post("/v1/checks", json=body).json())["report"]

    assert report["split"] == {"training_rows": 8, "validation_rows": 2}


def test_the_command_line_shows_what_is_trained_and_a_verdict(
    http: httpx.Client,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", str(http.base_url))
    folder = home / "models/callless"
    folder.mkdir(parents=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "stub"}')
    (folder / "model.safetensors").touch()
    (folder / "chat_template.jinja").write_text(WITHOUT_CALLS)
    assert http.post("/v1/models", json={"id": "callless", "folder": "callless"}).is_success
    thoughtful = {"messages": [ROW["messages"][0], {**ROW["messages"][1], "thinking": "why"}]}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(thoughtful)}\n")

    assert main(["check", str(tmp_path / "rows.jsonl"), "--model", "callless"]) == 1

    shown = capsys.readouterr().out
    assert "\u27e62<|end|>\u27e7" in shown
    assert "not in the trained text: turn 1 (assistant): reasoning 'why'" in shown
    assert "1 row (2): the chat template leaves out words to learn" in shown
    assert "verdict: refused: 1 row of 2 lose words to the chat template" in shown


def test_unusable_rows_are_reported_as_by_a_fine_tune(http: httpx.Client) -> None:
    file = upload(http, [ROW, {"messages": "no"}, ROW, {"messages": []}, {"messages": 3}])
    made = http.post("/v1/checks", json={"training_file": file, "max_errors": 2}).json()

    error = ended(http, made)["error"]

    assert (error["code"], error["param"]) == ("invalid_training_file", "training_file")
    assert [problem["row"] for problem in error["rows"]] == [2, 4]
    assert "messages" in error["rows"][0]["message"]
    assert error["message"].endswith("(and 1 more error; checking stopped there)")


def test_the_method_decides_what_a_row_must_be(http: httpx.Client) -> None:
    pair = {
        "input": {"messages": [{"role": "user", "content": "Hi"}]},
        "preferred_output": [{"role": "assistant", "content": "Hello."}],
        "non_preferred_output": [{"role": "assistant", "content": "What?"}],
    }
    file = upload(http, [pair])
    body = {"training_file": file, "method": {"type": "dpo"}}

    preferences = ended(http, http.post("/v1/checks", json=body).json())
    demonstrations = ended(http, http.post("/v1/checks", json={"training_file": file}).json())

    assert preferences["status"] == "succeeded"
    assert demonstrations["error"]["rows"][0]["row"] == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"training_file": "file-unknown"}, "training_file"),
        ({"model": "nobody"}, "model"),
        ({"devices": [0]}, "devices"),
        ({"max_errors": 0}, "max_errors"),
        ({"method": {"type": "supervised", "supervised": {"hyperparameters": {
            "llamafactory": {"mask_histroy": True}}}}},
         "method.supervised.hyperparameters.llamafactory.mask_histroy"),
    ],
)  # fmt: skip
def test_an_invalid_request_names_its_field(
    http: httpx.Client, body: dict[str, Any], param: str
) -> None:
    given = {"training_file": upload(http, [ROW]), **body}

    refused = http.post("/v1/checks", json=given)

    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_a_file_of_another_purpose_is_refused(http: httpx.Client) -> None:
    file = upload(http, [ROW], purpose="evals")

    refused = http.post("/v1/checks", json={"training_file": file})

    assert refused.json()["error"]["param"] == "training_file"


def test_the_jobs_of_a_file_are_listed(http: httpx.Client) -> None:
    file, other = upload(http, [ROW]), upload(http, [ROW])
    made = http.post("/v1/checks", json={"training_file": file}).json()

    found = http.get("/v1/jobs", params={"file": file, "kind": "check"}).json()["data"]

    assert [job["id"] for job in found] == [made["id"]]
    assert http.get("/v1/jobs", params={"file": other}).json()["data"] == []
    assert http.get("/v1/jobs", params={"file": "%"}).status_code == 400


def test_the_command_line_shows_rows_and_reports_unusable_ones(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", str(http.base_url))
    good, bad = upload(http, [ROW]), upload(http, [ROW, {"messages": "no"}])

    assert main(["files", "rows", bad, "-n", "1"]) == 0
    shown = capsys.readouterr()
    assert main(["files", "check", good]) == 0
    valid = capsys.readouterr().out
    assert main(["files", "check", bad]) == 1
    findings = capsys.readouterr().out
    assert main(["files", "check", good, "--method", "ppo"]) == 2

    assert shown.out == f"1: {json.dumps(ROW)}\n"
    assert f"temper files rows {bad} --after 1-" in shown.err
    assert "1, all usable" in valid
    assert "messages is 'no', not a list" in findings
