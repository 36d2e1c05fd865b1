"""Evaluations over REST, and the gateway's health. No worker runs these jobs."""

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from services.contracts.evaluation.results import SampleResult, ToolUse
from services.rollouts.log.log import IndexedLog
from temper.cli.main import main
from tests.support.chat_templates.families import FAMILIES
from tests.support.trajectories import call, trajectory


@pytest.fixture(scope="module")
def file_id(client: openai.OpenAI) -> str:
    row = b'{"prompt": "1+1=", "gold": "2"}\n'
    return client.files.create(file=("evals.jsonl", row), purpose="evals").id


def create(http: httpx.Client, file_id: str, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/evaluations", json={"model": "base", "file": file_id, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_an_evaluation_shows_its_request(http: httpx.Client, file_id: str) -> None:
    grader = {"type": "regex", "pattern": "(?P<answer>[0-9]+)", "ignore_case": True}

    made = create(http, file_id, grader=grader, sampling={"max_tokens": 8, "stop": ["\n"]})

    assert made["id"].startswith("eval-")
    assert (made["object"], made["status"]) == ("evaluation", "validating_files")
    assert (made["model"], made["file"], made["grader"]) == ("base", file_id, grader)
    assert made["sampling"]["max_tokens"] == 8
    assert (made["metrics"], made["error"], made["progress"]) == (None, None, None)
    shown = http.get(f"/v1/evaluations/{made['id']}").json()
    assert shown | {"queue_reason": None} == made


def test_an_evaluation_of_several_benchmarks_shows_each(http: httpx.Client, file_id: str) -> None:
    composite = {
        "benchmark": "panorama",
        "files": {f"panorama_{task}": file_id for task in ("par4pc", "pi4pc", "noc4pc")},
    }
    entries = [
        {"benchmark": "gsm8k", "file": file_id, "sampling": {"max_tokens": 8}, "split": "final"},
        {**composite, "max_samples": 5},
    ]
    body = {"model": "base", "benchmarks": entries, "sampling": {"temperature": 0.5}}

    answer = http.post("/v1/evaluations", json=body)

    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert (made["file"], made["grader"], made["metrics"]) == (None, None, None)
    names = ["gsm8k", "panorama_par4pc", "panorama_pi4pc", "panorama_noc4pc"]
    assert [each["name"] for each in made["benchmarks"]] == names
    first, *others = made["benchmarks"]
    assert (first["grader"]["type"], first["split"]) == ("numeric", "final")
    assert (first["sampling"]["max_tokens"], first["sampling"]["temperature"]) == (8, 0.5)
    assert [each["grader"]["task"] for each in others] == ["par4pc", "pi4pc", "noc4pc"]
    shown = http.get(f"/v1/evaluations/{made['id']}").json()
    assert shown | {"queue_reason": None} == made
    request = http.get(f"/v1/jobs/{made['id']}/request").json()["body"]
    again = http.post("/v1/evaluations", json=request)
    assert again.status_code == 200, again.text
    assert again.json()["benchmarks"] == made["benchmarks"]


def test_an_invalid_benchmark_is_named(http: httpx.Client, file_id: str) -> None:
    good = {"benchmark": "gsm8k", "file": file_id}

    def refused(*benchmarks: dict[str, Any], **fields: Any) -> dict[str, Any]:
        body = {"model": "base", "benchmarks": list(benchmarks), **fields}
        answer = http.post("/v1/evaluations", json=body)
        assert answer.status_code == 400, answer.text
        return dict(answer.json()["error"])

    gone = refused(good, {"benchmark": "aime24", "file": "file-gone"})
    assert gone["param"] == "benchmarks.1.file"
    assert "two are named gsm8k" in refused(good, good)["message"]
    assert "either file or benchmarks" in refused(good, file=file_id)["message"]
    assert (
        "g: samples_per_item above 1"
        in refused(good, {"name": "g", "file": file_id, "samples_per_item": 2})["message"]
    )
    assert (
        "panorama needs files for" in refused({"benchmark": "panorama", "file": file_id})["message"]
    )
    absent = {"type": "extension", "name": "absent"}
    own = {"name": "x", "file": file_id}
    assert refused(good, own, grader=absent)["param"] == "grader.name"
    assert refused(good, {**own, "grader": absent})["param"] == "benchmarks.1.grader.name"
    defined = {**own, "benchmark": {"grader": absent}}
    assert refused(good, defined)["param"] == "benchmarks.1.benchmark.grader.name"
    callable_grader = {"type": "callable", "path": "os.system"}
    assert refused({"name": "x", "file": file_id, "grader": callable_grader})["message"]


def test_an_unknown_metric_or_direction_is_rejected_with_the_known_ones(
    http: httpx.Client, file_id: str
) -> None:
    def refused(**own: str) -> str:
        benchmark = {"grader": {"type": "exact"}, **own}
        body = {"model": "base", "file": file_id, "benchmark": benchmark}
        answer = http.post("/v1/evaluations", json=body)
        assert answer.status_code == 400
        return answer.text

    for field, allowed in (
        ("metric", ("accuracy", "mean_score", "majority", "pass_at_k")),
        ("direction", ("maximize", "minimize")),
    ):
        text = refused(**{field: "down"})
        assert field in text
        assert all(name in text for name in allowed)
    assert "minimize goes with metric: mean_score" in refused(direction="minimize")
    assert "majority needs samples_per_item above 1" in refused(metric="majority")


def test_metrics_of_the_fork_are_requested_by_benchmark(http: httpx.Client, file_id: str) -> None:
    made = create(http, file_id, benchmark="panorama_par4pc", metrics="fork")
    assert made["grader"]["metrics"] == "fork"
    assert http.get(f"/v1/evaluations/{made['id']}").json()["grader"] == made["grader"]
    chemistry = {"benchmark": "chemcotbench", "metrics": "fork", "file": file_id}
    body = {"model": "base", "benchmarks": [chemistry, {"benchmark": "gsm8k", "file": file_id}]}
    several = http.post("/v1/evaluations", json=body).json()["benchmarks"]
    assert several[0]["grader"]["metrics"] == "fork"

    refused = http.post("/v1/evaluations", json={**body, "metrics": "fork"})
    assert refused.status_code == 400
    assert "gsm8k: metrics: fork is for panorama and chemcotbench only" in refused.text


def test_evaluations_are_paged_and_filtered_by_metadata(http: httpx.Client, file_id: str) -> None:
    label = uuid.uuid4().hex
    ids = [create(http, file_id, metadata={"suite": label})["id"] for _ in range(3)]

    first = http.get("/v1/evaluations", params={"metadata[suite]": label, "limit": 2}).json()
    second = http.get(
        "/v1/evaluations", params={"metadata[suite]": label, "after": first["last_id"]}
    ).json()
    everywhere = http.get("/v1/jobs", params={"metadata[suite]": label, "kind": "evaluation"})

    assert [e["id"] for e in first["data"] + second["data"]] == ids[::-1]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert [job["id"] for job in everywhere.json()["data"]] == ids[::-1]


def test_a_queued_evaluation_is_cancelled_immediately(http: httpx.Client, file_id: str) -> None:
    job_id = create(http, file_id)["id"]

    cancelled = http.post(f"/v1/evaluations/{job_id}/cancel").json()
    events = http.get(f"/v1/evaluations/{job_id}/events").json()["data"]

    assert cancelled["status"] == "cancelled"
    assert cancelled["finished_at"] is not None
    assert events[0]["message"] == "Cancelled before it ran"


def test_an_evaluation_is_not_found_as_a_fine_tune(http: httpx.Client, file_id: str) -> None:
    job_id = create(http, file_id)["id"]

    assert http.get(f"/v1/fine_tuning/jobs/{job_id}").status_code == 404
    assert http.post(f"/v1/fine_tuning/jobs/{job_id}/cancel").status_code == 404
    assert http.get(f"/v1/jobs/{job_id}").json()["kind"] == "evaluation"


def test_a_retried_create_returns_the_first_evaluation(http: httpx.Client, file_id: str) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"model": "base", "file": file_id}

    def send(path: str, **fields: Any) -> httpx.Response:
        return http.post(path, json={**body, **fields}, headers=key)

    first, again = send("/v1/evaluations"), send("/v1/evaluations")

    assert first.json() == again.json()
    assert send("/v1/evaluations", max_samples=1).status_code == 409
    assert http.post("/v1/models", json={"id": "x", "hub_id": "x"}, headers=key).status_code == 409


def test_results_are_paged_in_order_of_completion(
    http: httpx.Client, file_id: str, home: Path
) -> None:
    job_id = create(http, file_id)["id"]
    path = f"/v1/evaluations/{job_id}/results"
    assert http.get(path).json()["data"] == []

    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    rows = [SampleResult(id="", index=n, gold=["2"], answer="2", correct=n != 1) for n in (2, 0, 1)]
    lines = [row.model_dump_json(exclude={"id"}) + "\n" for row in rows]
    (folder / "results.jsonl").write_text("".join(lines) + '{"index": 3, "go')

    first = http.get(path, params={"limit": 2}).json()
    second = http.get(path, params={"limit": 2, "after": first["last_id"]}).json()

    assert [row["index"] for row in first["data"] + second["data"]] == [2, 0, 1]
    assert [row["correct"] for row in second["data"]] == [False]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert first["data"][0]["object"] == "evaluation.result"
    assert http.get(path, params={"after": "evalres-3"}).status_code == 400


def test_results_are_filtered_by_outcome_and_text(
    http: httpx.Client,
    file_id: str,
    home: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_id = create(http, file_id)["id"]
    path = f"/v1/evaluations/{job_id}/results"
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    rows = [
        SampleResult(id="", index=0, gold=["2"], answer="It is 2", extracted="2", correct=True),
        SampleResult(id="", index=1, gold=["4"], answer="It is 5", extracted="5", correct=False),
        SampleResult(id="", index=2, gold=["6"], answer=None, correct=None, error="HTTP 500"),
    ]
    lines = [row.model_dump_json(exclude={"id"}) + "\n" for row in rows]
    (folder / "results.jsonl").write_text("".join(lines))

    def indexes(**query: str) -> list[int]:
        return [row["index"] for row in http.get(path, params=query).json()["data"]]

    assert (indexes(outcome="wrong"), indexes(outcome="failed")) == ([1], [2])
    assert (indexes(text="IT IS"), indexes(text="it is", outcome="correct")) == ([0, 1], [0])
    assert http.get(path, params={"outcome": "odd"}).status_code == 400

    monkeypatch.setenv("TEMPER_API_URL", url)
    assert main(["evals", "show", job_id, "--only", "failed"]) == 0
    shown = capsys.readouterr().out
    assert "HTTP 500" in shown
    assert "correct" not in shown
    assert main(["evals", "show", job_id, "--text", "is 5", "--json"]) == 0
    assert [row["index"] for row in json.loads(capsys.readouterr().out)["data"]] == [1]


SANDBOX = {"class_name": "sandbox"}


def test_an_evaluation_with_tools_shows_them(
    http: httpx.Client, file_id: str, callable_model: str
) -> None:
    made = create(
        http,
        file_id,
        model=callable_model,
        tools=[SANDBOX],
        multi_turn={"multi_turn_enable": False, "max_tool_calls": 3},  # as clients that send all
    )

    assert [tool["class_name"] for tool in made["tools"]] == ["sandbox"]
    assert made["multi_turn"]["max_tool_calls"] == 3
    assert made["multi_turn"]["multi_turn_enable"] is True
    stored = http.get(f"/v1/jobs/{made['id']}/request").json()["body"]
    assert http.post("/v1/evaluations", json=stored).status_code == 200  # as a clone does
    plain = create(http, file_id)
    assert (plain["tools"], plain["multi_turn"]) == ([], None)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"class_name": "unheard.of"}]}, "tools[0].class_name"),
        ({"tools": [SANDBOX, SANDBOX]}, "tools[1].tool_schema.function.name"),
        ({"tools": [{"class_name": "http", "config": {}}]}, "tools[0].tool_schema"),
        ({"multi_turn": {"max_tool_calls": 1}}, "multi_turn"),
        (
            {"tools": [SANDBOX], "multi_turn": {"tool_parser_format": "none"}},
            "multi_turn.tool_parser_format",
        ),
        (
            {"tools": [SANDBOX], "multi_turn": {"max_total_response_length": 8}},
            "multi_turn.max_total_response_length",
        ),
        (
            {"tools": [SANDBOX], "sampling": {"presence_penalty": 1.0}},
            "sampling.presence_penalty",
        ),
        ({"tools": [SANDBOX], "grader": {"type": "environment"}}, "grader"),
        ({"tools": [SANDBOX], "model": "base"}, "model"),  # it has no chat template
    ],
)
def test_unusable_tools_are_rejected_by_field(
    http: httpx.Client, file_id: str, callable_model: str, fields: dict[str, Any], param: str
) -> None:
    body = {"model": callable_model, "file": file_id, **fields}

    answer = http.post("/v1/evaluations", json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_all_benchmarks_of_an_evaluation_have_its_tools(
    http: httpx.Client, file_id: str, callable_model: str
) -> None:
    plain: dict[str, Any] = {"name": "plain", "file": file_id}
    long: dict[str, Any] = {"name": "long", "file": file_id, "sampling": {"max_tokens": 2048}}
    body: dict[str, Any] = {"model": callable_model, "tools": [SANDBOX]}

    made = http.post("/v1/evaluations", json={**body, "benchmarks": [plain, long]}).json()
    short = {"max_total_response_length": 1024}
    refused = http.post(
        "/v1/evaluations", json={**body, "benchmarks": [plain, long], "multi_turn": short}
    )
    shared = http.post(
        "/v1/evaluations",
        json={**body, "benchmarks": [long], "sampling": {"presence_penalty": 1.0}},
    )
    long["sampling"]["repetition_penalty"] = 1.1
    penalized = http.post("/v1/evaluations", json={**body, "benchmarks": [plain, long]})

    assert [tool["class_name"] for tool in made["tools"]] == ["sandbox"]
    assert [each["name"] for each in made["benchmarks"]] == ["plain", "long"]
    assert refused.json()["error"]["param"] == "multi_turn.max_total_response_length"
    assert shared.json()["error"]["param"] == "sampling.presence_penalty"
    assert penalized.json()["error"]["param"] == "benchmarks.1.sampling.repetition_penalty"


def test_a_model_that_writes_calls_in_another_format_needs_its_parser(
    http: httpx.Client, file_id: str, home: Path
) -> None:
    model = model_with(http, home, "mistral")
    body = {"model": model, "file": file_id, "tools": [SANDBOX]}

    refused = http.post("/v1/evaluations", json=body)
    chosen = http.post(
        "/v1/evaluations", json={**body, "multi_turn": {"tool_parser_format": "mistral"}}
    )

    assert refused.json()["error"]["param"] == "multi_turn.tool_parser_format"
    assert "mistral" in refused.json()["error"]["message"]
    assert chosen.status_code == 200


def test_a_row_links_to_its_conversation(
    http: httpx.Client,
    file_id: str,
    callable_model: str,
    home: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job_id = create(http, file_id, model=callable_model, tools=[SANDBOX])["id"]
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(calls=[call("code_interpreter", shown="it printed 2")]))
    used = ToolUse(trajectory="traj-0-0", turns=1, calls=1, failed_calls=0, malformed_calls=0)
    row = SampleResult(id="", index=0, gold=["2"], answer="2", correct=True, tools=used)
    (folder / "results.jsonl").write_text(row.model_dump_json(exclude={"id"}) + "\n")

    (found,) = http.get(f"/v1/evaluations/{job_id}/results").json()["data"]
    name = found["tools"]["trajectory"]
    conversation = http.get(f"/v1/evaluations/{job_id}/trajectories/{name}").json()
    listed = http.get(f"/v1/evaluations/{job_id}/trajectories").json()["data"]

    assert conversation["turns"][0]["calls"][0]["shown"] == "it printed 2"
    assert [each["tool_calls"] for each in listed] == [1]
    monkeypatch.setenv("TEMPER_API_URL", url)
    assert main(["evals", "show", job_id, "--conversations"]) == 0
    assert "it printed 2" in capsys.readouterr().out
    assert main(["traj", job_id, name]) == 0
    assert "it printed 2" in capsys.readouterr().out


def model_with(http: httpx.Client, home: Path, family: str) -> str:
    """Register a model with the chat template and tokenizer of a family."""
    name = f"{family}-{uuid.uuid4().hex[:8]}"
    folder = home / "models" / name
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "stub"}')
    (folder / "model.safetensors").touch()
    FAMILIES[family].write(folder)
    assert http.post("/v1/models", json={"id": name, "folder": name}).status_code == 200
    return name


@pytest.fixture(scope="module")
def callable_model(http: httpx.Client, home: Path) -> str:
    return model_with(http, home, "qwen2_5")


def test_health_readiness_and_metrics_are_reported(http: httpx.Client, file_id: str) -> None:
    create(http, file_id)

    ready = http.get("/readyz").json()
    answer = http.get("/metrics")

    assert http.get("/healthz").json() == {"status": "ok"}
    assert ready["status"] == "ready"
    assert ready["dependencies"] == dict.fromkeys(
        ["database", "broker", "artifacts", "dispatcher"], "ok"
    )
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'temper_jobs{kind="evaluation",status="validating_files"}' in answer.text
    assert 'temper_http_requests_total{method="POST",route="/v1/evaluations"' in answer.text
