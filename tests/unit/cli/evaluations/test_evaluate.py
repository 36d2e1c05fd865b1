"""``temper eval``: several benchmarks with one command, and their table."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from services.contracts.data.files import File, FilePurpose
from temper.cli.main import main
from tests.support.evaluation.evaluation_view import evaluation, evaluation_of_several
from tests.support.models.hub import Hub, Kind, Repository, running_hub
from tests.unit.cli.conftest import ScriptedServer

ROWS = '{"question": "1 + 1?", "answer": "#### 2"}\n'
CAPITALS = """
file: file-2
benchmark: {question: item.text, answer: item.golds, grader: {type: exact}}
samples_per_item: 2
sampling: {temperature: 0.5, max_tokens: 16}
"""


@pytest.fixture(autouse=True)
def _gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.jsonl").write_text(ROWS)
    (tmp_path / "capitals.yaml").write_text(CAPITALS)
    server.on("/v1/files", _files)
    answers = [_state(name, "queued") for name in ("eval-1", "eval-2")]
    server.on("/v1/evaluations", *answers)
    for name, accuracy in (("eval-1", 0.75), ("eval-2", 0.5)):
        server.on(f"/v1/jobs/{name}", _state(name, "succeeded", kind="evaluation", object="job"))
        done = evaluation(name, "m", "f", accuracy)
        server.on(f"/v1/evaluations/{name}", JSONResponse(done.model_dump(mode="json")))


def _files(request: Request) -> Response:
    if request.method == "GET":
        return JSONResponse({"object": "list", "data": [], "has_more": False})
    file = File(
        **{"id": "file-1", "bytes": len(ROWS), "created_at": 0, "sha256": "0" * 64},
        filename="test.jsonl",
        purpose=FilePurpose.EVALS,
    )
    return JSONResponse(file.model_dump(mode="json"))


def _state(name: str, status: str, **fields: Any) -> Response:
    shown = evaluation(name, "m", "f", 0.5, status=status, metrics=None)
    return JSONResponse({**shown.model_dump(mode="json"), **fields})


def several(accuracies: dict[str, float]) -> Response:
    done = evaluation_of_several("eval-1", "m", accuracies)
    return JSONResponse(done.model_dump(mode="json"))


def submitted(server: ScriptedServer) -> list[Any]:
    return [
        json.loads(each.body)
        for each in server.received
        if (each.method, each.path) == ("POST", "/v1/evaluations")
    ]


def test_benchmarks_become_one_evaluation_and_one_table(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("/v1/evaluations/eval-1", several({"gsm8k": 0.75, "capitals": 0.5}))
    options = ["--limit", "7", "--max-tokens", "9"]
    assert main(["eval", "m", "gsm8k=test.jsonl", "capitals.yaml", *options]) == 0

    (request,) = submitted(server)
    assert (request["model"], request["file"], request["benchmark"]) == ("m", None, None)
    named, described = request["benchmarks"]
    assert (named["name"], named["benchmark"], named["file"]) == ("gsm8k", "gsm8k", "file-1")
    assert (named["max_samples"], named["sampling"]["max_tokens"]) == (7, 9)
    assert described["name"] == "capitals"
    assert described["benchmark"]["question"] == "item.text"
    assert (described["file"], described["max_samples"]) == ("file-2", 7)
    assert described["samples_per_item"] == 2
    sampling = described["sampling"]
    assert (sampling["temperature"], sampling["max_tokens"]) == (0.5, 9)
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["BENCHMARK", "ITEMS", "ACCURACY"]
    assert [(line.split()[0], line.split()[2]) for line in lines] == [
        ("gsm8k", "0.7500"),
        ("capitals", "0.5000"),
    ]


def test_a_single_benchmark_is_an_evaluation_of_its_file(server: ScriptedServer) -> None:
    assert main(["eval", "m", "gsm8k=test.jsonl", "--split", "search"]) == 0
    (request,) = submitted(server)
    assert (request["benchmark"], request["file"]) == ("gsm8k", "file-1")
    assert (request["benchmarks"], request["split"]) == (None, "search")


def test_a_composite_takes_a_file_for_each_of_its_benchmarks(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "m", "panorama_cot=file-1,file-2,file-3"]) == 0
    (request,) = submitted(server)
    assert {each["benchmark"]: each["file"] for each in request["benchmarks"]} == {
        "panorama_par4pc_cot": "file-1",
        "panorama_pi4pc_cot": "file-2",
        "panorama_noc4pc_cot": "file-3",
    }
    assert main(["eval", "m", "panorama=file-1,file-2"]) == 1
    assert "panorama takes 3 files separated by commas" in capsys.readouterr().err


def test_benchmarks_of_one_name_are_numbered(server: ScriptedServer) -> None:
    assert main(["eval", "m", "gsm8k=file-1", "gsm8k=file-2"]) == 0
    (request,) = submitted(server)
    assert [each["name"] for each in request["benchmarks"]] == ["gsm8k", "gsm8k-2"]


def test_settings_of_the_engine_are_shared_or_refused(
    tmp_path: Path, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = "engine: {max_model_len: %d}\nfile: file-1\n"
    (tmp_path / "short.yaml").write_text(engine % 512)
    (tmp_path / "long.yaml").write_text(engine % 4096)

    assert main(["eval", "m", "short.yaml", "gsm8k=file-1"]) == 0
    (request,) = submitted(server)
    assert request["engine"]["max_model_len"] == 512
    assert main(["eval", "m", "short.yaml", "long.yaml"]) == 1
    assert "long: engine differs from the other benchmarks'" in capsys.readouterr().err
    assert len(submitted(server)) == 1


def test_an_endpoint_is_named_by_its_url(server: ScriptedServer) -> None:
    address = "http://127.0.0.1:9/v1"
    assert main(["eval", "m", "gsm8k=file-1", "--base-url", address]) == 0
    (request,) = submitted(server)
    assert (request["model"], request["file"]) == ({"base_url": address, "model": "m"}, "file-1")


def test_repeated_samples_add_majority_and_pass_at_k(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    done = evaluation("eval-1", "m", "f", 0.5).model_dump(mode="json")
    estimate = {"mean": 0.625, "stderr": 0.1, "ci95": [0, 1]}
    done["metrics"] |= {"majority": estimate, "pass_at_k": {"2": estimate, "16": estimate}}
    server.on("/v1/evaluations/eval-1", JSONResponse(done))

    options = ["--samples", "16", "--temperature", "0.7"]
    assert main(["eval", "m", "gsm8k=test.jsonl", *options]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[-5:] == ["0.6250", "0.6250", "(k=16)", "0", "eval-1"]


def test_measures_have_a_separate_table(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluation_of_several("eval-1", "m", {"gsm8k": 0.5, "capitals": 0.5})
    done = found.model_dump(mode="json")
    measures = {"mol_opt/qed": {"success": {"mean": 0.625, "samples": 8}}}
    done["benchmarks"][0]["metrics"]["measures"] = measures
    server.on("/v1/evaluations/eval-1", JSONResponse(done))

    assert main(["eval", "m", "gsm8k=test.jsonl", "capitals.yaml"]) == 0
    *_, heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["BENCHMARK", "PART", "MEASURE"]
    assert line.split() == ["gsm8k", "mol_opt/qed", "success", "0.6250", "8"]


def test_reuse_is_reported_and_fresh_forces_sampling(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, reuse, said in (
        ("eval-1", {"cached_from": "eval-0"}, "eval-1: reused the answers of eval-0"),
        ("eval-2", {"not_cached": "a new model"}, "eval-2: no answers were reused: a new model"),
    ):
        done = evaluation(name, "m", "f", 0.5, **reuse)
        server.on(f"/v1/evaluations/{name}", JSONResponse(done.model_dump(mode="json")))
        assert main(["eval", "m", "gsm8k=test.jsonl"]) == 0
        assert said in capsys.readouterr().err

    assert main(["eval", "m", "gsm8k=test.jsonl", "--fresh"]) == 0
    assert [request.get("fresh", False) for request in submitted(server)] == [False, False, True]


def test_a_failed_evaluation_fails_the_command(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"error": {"code": "invalid_evaluation_file", "message": "row 1: answer is missing"}}
    server.on("/v1/evaluations/eval-1", _state("eval-1", "failed", **fault))

    assert main(["eval", "m", "gsm8k=test.jsonl"]) == 1
    printed = capsys.readouterr()
    assert [line.split()[:3] for line in printed.out.splitlines()[1:]] == [
        ["gsm8k", "failed", "eval-1"]
    ]
    assert "eval-1: row 1: answer is missing" in printed.err


def test_json_has_one_line_for_the_evaluation(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("/v1/evaluations/eval-1", several({"gsm8k": 0.75, "capitals": 0.5}))
    assert main(["eval", "m", "gsm8k=test.jsonl", "capitals.yaml", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert [each["name"] for each in json.loads(line)["benchmarks"]] == ["gsm8k", "capitals"]


@pytest.mark.parametrize(
    ("benchmark", "message"),
    [
        ("gsm9k=test.jsonl", "gsm9k: benchmark: no benchmark 'gsm9k'; there are aime24, "),
        ("gsm8k=absent.jsonl", "gsm8k: 'absent.jsonl' is not a file id, and absent.jsonl does"),
        ("gsm8k", "'gsm8k' is neither a file nor NAME=ROWS, a benchmark (aime24"),
        ("rollout.yaml", "rollout.yaml: kind is 'rollout', not evaluation"),
        ("typo.yaml", "typo.yaml, line 1: sampels_per_item: Extra inputs are not permitted"),
    ],
)
def test_nothing_is_submitted_unless_every_benchmark_is_valid(
    benchmark: str,
    message: str,
    tmp_path: Path,
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "rollout.yaml").write_text("{kind: rollout, file: file-2}")
    (tmp_path / "typo.yaml").write_text("{file: file-2, sampels_per_item: 2}")
    assert main(["eval", "m", "capitals.yaml", benchmark]) == 1
    assert message in capsys.readouterr().err
    assert not server.received


HUB_ROWS = "hf://datasets/lab/sums@v1.0/main/test.jsonl"


def from_hub(hub: Hub, cache: Path, token: str, rows: str) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, since the hub library reads its settings once."""
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(cache), "HF_TOKEN": token}
    command = [sys.executable, "-m", "temper", "eval", "m", f"gsm8k={rows}"]
    root = Path(__file__).parents[4]
    return subprocess.run(
        command,
        env=environment | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_rows_of_a_gated_dataset_come_from_the_hub(tmp_path: Path, server: ScriptedServer) -> None:
    (tmp_path / "sums" / "main").mkdir(parents=True)
    (tmp_path / "sums" / "main" / "test.jsonl").write_text(ROWS)
    versions = {"v1.0": tmp_path / "sums"}
    with running_hub() as hub:
        hub.add(Repository(Kind.DATASET, "lab/sums", versions, readers=frozenset({"hf_reader"})))
        refused = from_hub(hub, tmp_path / "cache", "", HUB_ROWS)
        assert not server.received
        done = from_hub(hub, tmp_path / "cache", "hf_reader", HUB_ROWS)

    assert refused.returncode == 1
    assert "no such dataset, or HF_TOKEN gives no access to it" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert any(ROWS.encode() in each.body for each in server.received)
    (request,) = submitted(server)
    assert (request["benchmark"], request["file"]) == ("gsm8k", "file-1")


@pytest.mark.parametrize("path", ["lab/sums", "lab/sums/../../etc/passwd", "sums/test.jsonl"])
def test_a_reference_to_the_hub_names_a_file(
    path: str, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "m", f"gsm8k=hf://datasets/{path}"]) == 1
    assert "is not hf://datasets/OWNER/NAME[@REVISION]/PATH" in capsys.readouterr().err
    assert not server.received


def test_tools_of_a_file_are_offered_in_every_benchmark(server: ScriptedServer) -> None:
    Path("tools.yaml").write_text("tools: [{class_name: sandbox}]\n")

    assert main(["eval", "m", "gsm8k=test.jsonl", "capitals.yaml", "--tools", "tools.yaml"]) == 0

    (request,) = submitted(server)
    assert [each["name"] for each in request["benchmarks"]] == ["gsm8k", "capitals"]
    assert [tool["class_name"] for tool in request["tools"]] == ["sandbox"]


def test_a_tool_file_without_tools_is_refused_before_anything_is_sent(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tools.yaml").write_text("nothing: []\n")

    assert main(["eval", "m", "gsm8k=test.jsonl", "--tools", "tools.yaml"]) == 1

    assert "tools.yaml has no list of tools" in capsys.readouterr().err
    assert server.received == []
