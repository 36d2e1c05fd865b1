"""``temper evals table``: the leaderboard as text, Markdown and JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse

from services.contracts.data.files import File, FilePurpose
from services.contracts.evaluation.evaluations import Evaluation
from temper.cli.main import main
from tests.support.evaluation.evaluation_view import evaluation
from tests.unit.cli.conftest import ScriptedServer


@pytest.fixture(autouse=True)
def _gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    file = File(
        **{"id": "f", "bytes": 1, "created_at": 0, "sha256": "0" * 64},
        filename="sums.jsonl",
        purpose=FilePurpose.EVALS,
    )
    server.on("/v1/files/f", JSONResponse(file.model_dump(mode="json")))
    serve(
        server, evaluation("e-1", "good|er", "f", 0.75), evaluation("e-2", "base", "deleted", 0.5)
    )


def serve(server: ScriptedServer, *evaluations: Evaluation) -> None:
    data = [each.model_dump(mode="json") for each in evaluations]
    server.on("/v1/evaluations", JSONResponse({"object": "list", "data": data, "has_more": False}))


def run(*options: str) -> int:
    return main(["evals", "table", *options])


def test_markdown_has_one_line_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--markdown") == 0
    assert capsys.readouterr().out.splitlines() == [
        "| MODEL | deleted (numeric, 10) | sums.jsonl (numeric, 10) | MEAN |",
        "| --- | ---: | ---: | ---: |",
        "| good\\|er |  | 0.7500 [0.0000, 1.0000] |  |",
        "| base | 0.5000 [0.0000, 1.0000] |  |  |",
    ]


def test_a_model_with_every_benchmark_has_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--file", "f") == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "MODEL"
    assert line.split() == ["good|er", "0.7500", "[0.0000,", "1.0000]", "0.7500"]


def test_json_names_the_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "--model", "base") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [each["filename"] for each in document["benchmarks"]] == ["deleted"]
    (model,) = document["models"]
    assert (model["model"], model["mean"]) == ("base", 0.5)
    (result,) = model["results"]
    main = result.pop("main_metric")
    assert (main["name"], main["mean"], main["direction"]) == ("accuracy", 0.5, "maximize")
    assert result == {
        **{"evaluation": "e-2", "accuracy": 0.5, "stderr": 0.1},
        **{"ci95": [0.0, 1.0], "errors": 0},
    }


def test_benchmarks_with_equal_names_are_disambiguated(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    tolerant = {"type": "numeric", "absolute_tolerance": 0.1}
    serve(server, evaluation("b", "m", "f", 0.5, grader=tolerant), evaluation("a", "m", "f", 0.5))
    assert run("--markdown") == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert "sums.jsonl (numeric, 10) f #1 | sums.jsonl (numeric, 10) f #2" in heading


def test_a_table_without_results_is_reported(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server)
    assert run() == 0
    assert "no evaluation has succeeded" in capsys.readouterr().err


def test_the_mean_of_several_benchmarks_has_its_interval(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(server, evaluation("b", "m", "deleted", 0.5), evaluation("a", "m", "f", 0.75))
    assert run("--markdown") == 0
    # Each has the interval 0 to 1: sqrt(0.5^2 + 0.75^2) / 2 below the mean, and so on above it.
    assert capsys.readouterr().out.splitlines()[-1].endswith("| 0.6250 [0.1743, 0.9045] |")
    assert run("--json") == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["mean_stderr"] == pytest.approx(0.1 / 2**0.5)


def test_headings_name_the_metric_and_an_asterisk_marks_the_best_model(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = {"grader": {"type": "numeric"}, "metric": "mean_score", "direction": "minimize"}
    models = []
    for name, score in (("far", 3.5), ("near", 0.5)):
        one = evaluation(name, name, "f", 0.5, benchmark=benchmark)
        assert one.metrics is not None
        one.metrics.mean_score = score
        models.append(one)
    serve(server, *models)
    assert run("--markdown") == 0
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert "(numeric, mean_score, lower is better, 10)" in heading
    assert rows == ["| near | 0.5000 * | 0.5000 |", "| far | 3.5000 | 3.5000 |"]
