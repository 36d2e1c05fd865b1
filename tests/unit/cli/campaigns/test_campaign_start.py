"""``temper campaign start``."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse

from temper.cli.main import main
from temper.submission.benchmark_sources import describe_benchmark
from tests.unit.cli.conftest import ScriptedServer

URL = "http://127.0.0.1:4000/v1"
LLM = ["--llm-url", URL, "--llm-model", "strong"]
CAMPAIGN = {
    "id": "campaign-1",
    "object": "campaign",
    "status": "validating_files",
    "created_at": 1,
    "priority": 0,
    "attempt": 0,
    "base_model": "tiny",
    "scenario": "x",
    "budget": {},
}


@pytest.fixture
def gateway(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ScriptedServer:
    """A gateway with the model tiny, in a folder with a file of items."""
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.jsonl").write_text('{"prompt": "1+1", "gold": "2"}\n')
    model = {"id": "tiny", "created": 1, "owned_by": "temper", "kind": "full"}
    file = {
        "id": "file-1",
        "bytes": 31,
        "created_at": 1,
        "filename": "items.jsonl",
        "purpose": "evals",
        "sha256": "0" * 64,
    }
    server.on(
        "/v1/files", lambda asked: JSONResponse({"data": []} if asked.method == "GET" else file)
    )
    server.on("/v1/models/tiny", JSONResponse(model))
    server.on("/v1/models", JSONResponse({"object": "list", "data": [model]}))
    server.on("/v1/campaigns", JSONResponse(CAMPAIGN))
    server.on("/v1/campaigns/campaign-1", JSONResponse(CAMPAIGN))
    server.on("/v1/campaigns/campaign-1/rewind", JSONResponse(CAMPAIGN))
    server.on("/v1/campaigns/campaign-1/fork", JSONResponse(CAMPAIGN))
    return server


def start(*options: str) -> int:
    return main(["campaign", "start", "--base-model", "tiny", *options])


def sent(gateway: ScriptedServer, path: str = "/v1/campaigns") -> dict[str, Any]:
    (request,) = (each for each in gateway.received if each.path == path)
    body: dict[str, Any] = json.loads(request.body)
    return body


def test_published_flags_mean_what_they_say(gateway: ScriptedServer) -> None:
    flags = ["--benchmark", "gsm8k", "--user-target-scenario", "Sums.", "--loop-n", "5"]
    flags += ["--branches", "2", "--parents", "spread"]
    flags += ["--step-n", "12", "--timeout", "90m", "--upper-data-size-limit", "700"]

    assert start(*LLM, *flags, "--file", "items.jsonl", "--dataset", "sums") == 0

    body = sent(gateway)
    assert body["benchmark"] == "gsm8k"
    assert body["scenario"].startswith("Sums.")
    assert describe_benchmark("gsm8k") in body["scenario"]
    assert (body["file"], body["datasets"][0]["name"]) == ("file-1", "sums")
    assert body["training_rows"] == 700
    assert (body["branches"], body["parents"]) == (2, "spread")
    limits = {name: body["budget"][name] for name in ("loops", "steps", "hours")}
    assert limits == {"loops": 5, "steps": 12, "hours": 1.5}


def test_a_description_replaces_what_is_known_of_a_benchmark(gateway: ScriptedServer) -> None:
    told = ["--benchmark", "gsm8k", "--benchmark-description", "Grade school."]

    assert start(*LLM, *told, "--file", "items.jsonl") == 0

    assert sent(gateway)["scenario"] == "The benchmark gsm8k: Grade school."


@pytest.mark.parametrize(("options", "loops"), [([], 3), (["--step-n", "9"], 1000)])
def test_other_limits_end_loops_that_are_not_counted(
    gateway: ScriptedServer, options: list[str], loops: int
) -> None:
    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", *options) == 0

    assert sent(gateway)["budget"]["loops"] == loops


def test_the_policy_of_acceptance_is_the_users(gateway: ScriptedServer) -> None:
    policy = ["--accept-by", "mean", "--accept-above", "0.02"]

    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", *policy) == 0

    assert sent(gateway)["acceptance"] == {"by": "mean", "above": 0.02}


def test_seeds_are_those_of_each_model(gateway: ScriptedServer) -> None:
    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", "--seeds", "4") == 0

    assert sent(gateway)["seeds"]["most"] == 4


def test_each_role_may_have_an_llm_of_its_own(gateway: ScriptedServer) -> None:
    roles = ["--llm-for", "feedback=weak", "--llm-for", "coding=coder@http://10.0.0.1/v1"]

    assert start(*LLM, *roles, "--scenario", "Sums.", "--file", "items.jsonl") == 0

    by_role = sent(gateway)["llm_by_role"]
    found = {role: (llm["model"], llm["base_url"]) for role, llm in by_role.items()}
    assert found == {"feedback": ("weak", URL), "coding": ("coder", "http://10.0.0.1/v1")}


def test_reasoning_is_left_out_of_all_answers_if_wanted(gateway: ScriptedServer) -> None:
    options = ["--scenario", "Sums.", "--file", "items.jsonl", "--llm-for", "feedback=weak"]

    assert start(*LLM, *options, "--strip-reasoning") == 0

    body = sent(gateway)
    assert body["llm"]["strip_reasoning"]
    assert body["llm_by_role"]["feedback"]["strip_reasoning"]


@pytest.mark.parametrize(
    ("options", "read", "write"),
    [([], False, False), (["--read-cache"], True, False), (["--write-cache"], False, True)],
)
def test_answers_are_shared_if_wanted(
    gateway: ScriptedServer, options: list[str], read: bool, write: bool
) -> None:
    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", *options) == 0

    assert sent(gateway)["answer_cache"] == {"read": read, "write": write}


@pytest.mark.parametrize(("options", "devices"), [([], None), (["--devices", "0, 2"], [0, 2])])
def test_jobs_may_be_given_cards(
    gateway: ScriptedServer, options: list[str], devices: list[int] | None
) -> None:
    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", *options) == 0

    assert sent(gateway).get("devices") == devices


def test_data_scripts_may_be_given_llms(gateway: ScriptedServer) -> None:
    pools = ["--script-llm", "strong=big", "--script-llm", "weak=small@http://10.0.0.1/v1"]

    assert start(*LLM, *pools, "--scenario", "Sums.", "--file", "items.jsonl") == 0

    llms = sent(gateway)["script_llms"]
    found = {
        name: [(llm["model"], llm["base_url"]) for llm in llms[name]] for name in ("strong", "weak")
    }
    assert found == {"strong": [("big", URL)], "weak": [("small", "http://10.0.0.1/v1")]}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--file", "items.jsonl"], "--scenario or --benchmark"),
        (["--scenario", "Sums."], "--file is missing"),
        (["--benchmark", "gsm9k"], "gsm9k"),
        (["--benchmark", "gsm8k", "--grader", "exact"], "grader"),
        (["--benchmark-description", "x", "--scenario", "Sums."], "--benchmark-description"),
        (["--scenario", "Sums.", "--timeout", "soon"], "soon"),
        (["--scenario", "Sums.", "--timeout", "1h", "--hours", "1"], "--timeout"),
        (["--scenario", "Sums.", "--llm-for", "cooking=weak"], "cooking"),
        (["--scenario", "Sums.", "--devices", "first"], "first"),
        (["--scenario", "Sums.", "--script-llm", "big"], "strong|weak=MODEL[@URL]"),
        (["--scenario", "Sums.", "--script-llm", "weak=small"], "strong=MODEL"),
        (["--scenario", "Sums.", "--cost", "3"], "price"),
        (["--path", "campaign-1"], "ID/LOOP"),
        (["--path", "campaign-1/2/baking"], "step"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_created(
    gateway: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    named: str,
) -> None:
    assert start(*LLM, *options) == 2

    assert named in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert all(request.method == "GET" for request in gateway.received)


def test_a_path_goes_back_to_a_step_of_a_campaign(gateway: ScriptedServer) -> None:
    assert start("--path", "campaign-1/2/coding") == 0

    rewound = sent(gateway, "/v1/campaigns/campaign-1/rewind")
    assert rewound == {"loop": 2, "step": "coding"}


ENVIRONMENT = """
CHAT_MODEL=first
CHAT_MODEL=openai/strong
OPENAI_API_BASE=http://127.0.0.1:4000/v1
MAX_RETRY=12000
FT_TARGET_BENCHMARK=aime25
FT_USER_TARGET_SCENARIO="I need the model's help."
FT_FILE_PATH=.
FT_UPPER_DATA_SIZE_LIMIT=700
FT_WEAK_MODELS='["small"]'
FT_JUDGE_MODEL=judge
MULTI_PROC_N=2
"""


@pytest.mark.parametrize("options", [[], ["--env-file", "own.env"]])
def test_the_base_model_alone_starts_what_the_environment_says(
    gateway: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    for kind, name in (("benchmarks", "aime25"), ("datasets", "sums")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{name}.jsonl").write_text('{"prompt": "1+1", "gold": "2"}\n')
    (tmp_path / (options[-1] if options else ".env")).write_text(ENVIRONMENT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    assert start(*options) == 0

    body = sent(gateway)
    assert (body["llm"]["model"], body["llm"]["base_url"]) == ("strong", URL)
    assert body["llm"]["attempts"] == 100
    assert body["benchmark"] == "aime25"
    assert body["scenario"].startswith("I need the model's help.")
    assert body["training_rows"] == 700
    assert (body["branches"], body["devices"]) == (2, [0, 1])
    assert body["judge"] == {"base_url": URL, "model": "judge"}
    assert body["script_llms"]["weak"][0]["model"] == "small"
    assert [each["name"] for each in body["datasets"]] == ["sums"]


def test_options_are_above_the_environment(gateway: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(ENVIRONMENT)
    options = ["--scenario", "Sums.", "--benchmark", "gsm8k", "--file", "items.jsonl"]

    assert start(*options, "--llm-model", "other", "--branches", "3", "--training-rows", "9") == 0

    body = sent(gateway)
    assert (body["llm"]["model"], body["llm"]["base_url"]) == ("other", URL)
    assert (body["benchmark"], body["branches"], body["training_rows"]) == ("gsm8k", 3, 9)
    assert body["scenario"].startswith("Sums.")
    assert body.get("judge") is None, "no judge is asked for gsm8k"


def test_a_file_of_compose_is_not_read(gateway: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TEMPER_API_PORT=1\nHF_TOKEN=x\n")

    assert start("--scenario", "Sums.", "--file", "items.jsonl") == 2


@pytest.mark.parametrize("flags", [["--checkout", "False"], ["--checkout=false"]])
def test_flags_take_values_as_published(gateway: ScriptedServer, flags: list[str]) -> None:
    assert start("--path", "campaign-1/2", *flags) == 0

    assert sent(gateway, "/v1/campaigns/campaign-1/fork")["loop"] == 2


def test_a_flag_may_be_true(gateway: ScriptedServer) -> None:
    assert start("--path", "campaign-1/2", "--checkout", "True") == 0

    assert sent(gateway, "/v1/campaigns/campaign-1/rewind")["loop"] == 2


def test_without_checkout_a_new_campaign_begins_there(gateway: ScriptedServer) -> None:
    assert start("--path", "campaign-1/2", "--no-checkout", "--loop-n", "7") == 0

    forked = sent(gateway, "/v1/campaigns/campaign-1/fork")
    assert (forked["loop"], forked["step"]) == (2, "direct_exp_gen")
    assert forked["budget"]["loops"] == 7


def test_the_base_model_of_a_path_is_that_of_its_campaign(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["campaign", "start", "--base-model", "other", "--path", "campaign-1/2"]

    assert main(arguments) == 2

    assert "tiny" in capsys.readouterr().err


def test_a_job_file_is_below_the_options_and_above_the_environment(
    gateway: ScriptedServer, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(ENVIRONMENT)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/rows.jsonl").write_text('{"prompt": "1+1", "gold": "2"}\n')
    (tmp_path / "jobs/campaign.yaml").write_text(
        "kind: campaign\nscenario: Sums.\nbenchmark: gsm8k\nfile: rows.jsonl\n"
        "branches: 5\nbudget: {loops: 4, hours: 2}\nllm: {model: own}\n"
    )

    assert start("-f", "jobs/campaign.yaml", "--loops", "7", "--set", "seeds.most=2") == 0

    body = sent(gateway)
    assert (body["scenario"], body["benchmark"], body["branches"]) == ("Sums.", "gsm8k", 5)
    assert (body["budget"]["loops"], body["budget"]["hours"], body["seeds"]["most"]) == (7, 2, 2)
    assert (body["llm"]["model"], body["llm"]["base_url"]) == ("own", URL)


def test_a_bound_is_that_of_the_field(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(*LLM, "--scenario", "Sums.", "--file", "items.jsonl", "--loop-n", "0") == 2

    assert "--loop-n: budget.loops: Input should be greater" in capsys.readouterr().err
