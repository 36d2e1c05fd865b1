"""Task files and environment files of campaigns, as RD-Agent publishes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.campaigns.llms import MOST_CALLS_AT_ONCE
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.models.registered import RemoteModel
from temper.cli.main import main
from temper.formats.campaign_environment import CampaignEnvironment, read_environment
from temper.formats.campaign_tasks import CampaignTask, read_cards, read_duration, read_tasks
from temper.submission.benchmark_sources import describe_benchmark
from temper.submission.campaign_batch import plan_campaigns, predecessors
from temper.submission.submission import SubmissionError
from tests.unit.cli.conftest import ScriptedServer

TEMPLATE = Path(__file__).parent / "rdagent_template.env"
PUBLISHED = Path(__file__).parent / "published.env"
"""The template with the values that it is published with."""
EVERY_KEY = [
    "BACKEND",
    "CHAT_MODEL",
    "CHAT_TEMPERATURE",
    "CHAT_STREAM",
    "CHAT_FREQUENCY_PENALTY",
    "CHAT_PRESENCE_PENALTY",
    "OPENAI_API_KEY",
    "OPENAI_API_BASE",
    "EMBEDDING_MODEL",
    "EMBEDDING_USE_AZURE",
    "MAX_RETRY",
    "RETRY_WAIT_SECONDS",
    "MULTI_PROC_N",
    "STEP_SEMAPHORE",
    "DUMP_CHAT_CACHE",
    "USE_CHAT_CACHE",
    "DUMP_EMBEDDING_CACHE",
    "USE_EMBEDDING_CACHE",
    "LOG_LLM_CHAT_CONTENT",
    "LOG_FORMAT_CONSOLE",
    "FT_FILE_PATH",
    "FT_Coder_CoSTEER_env_type",
    "FT_DOCKER_ENABLE_CACHE",
    "FT_UPDATE_LLAMA_FACTORY",
    "FT_API_MAX_WORKERS",
    "FT_STRONG_MODELS",
    "FT_WEAK_MODELS",
    "FT_TARGET_BENCHMARK",
    "FT_BENCHMARK_DESCRIPTION",
    "FT_USER_TARGET_SCENARIO",
    "FT_DATASET",
    "FT_BASE_MODEL",
    "FT_FULL_TIMEOUT",
    "FT_DATA_PROCESSING_TIMEOUT",
    "FT_DEBUG_DATA_PROCESSING_TIMEOUT",
    "FT_MICRO_BATCH_TIMEOUT",
    "FT_BENCHMARK_TIMEOUT",
    "FT_BENCHMARK_LIMIT",
    "FT_BENCHMARK_NUM_RUNS",
    "FT_BENCHMARK_PASS_K",
    "FT_JUDGE_MODEL",
    "FT_JUDGE_API_KEY",
    "FT_JUDGE_API_BASE",
    "FT_JUDGE_RETRY",
    "FT_UPPER_DATA_SIZE_LIMIT",
    "FT_CODER_MAX_LOOP",
    "FT_FORCE_THINK_TOKEN",
    "FT_EMBEDDING_MODELS",
    "FT_DATA_SAMPLE_COUNT",
    "REASONING_THINK_RM",
    "HF_TOKEN",
]

UNUSUAL = {
    "BACKEND": "other.Backend",
    "CHAT_STREAM": "True",
    "CHAT_MODEL": "litellm_proxy/other",
    "DUMP_CHAT_CACHE": "True",
    "USE_CHAT_CACHE": "True",
    "LOG_LLM_CHAT_CONTENT": "False",
    "REASONING_THINK_RM": "True",
    "FT_FORCE_THINK_TOKEN": "True",
    "FT_DOCKER_ENABLE_CACHE": "True",
    "FT_BENCHMARK_LIMIT": "50",
    "FT_BENCHMARK_NUM_RUNS": "4",
    "FT_BENCHMARK_PASS_K": "1",
    "FT_FULL_TIMEOUT": "777",
    "OPENAI_API_BASE": "http://10.0.0.1:4000/v1",
}
"""A value whose effect can be told from the default, of keys that are not just numbers or texts."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What FT_FILE_PATH names."""
    for kind, name in (("datasets", "sums"), ("datasets", "more"), ("benchmarks", "aime25")):
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{name}.jsonl").write_text('{"problem": "1 + 1?", "answer": 2}\n')
    return tmp_path


def environment(folder: Path, **values: str) -> CampaignEnvironment:
    """The least that a batch needs, and ``values``."""
    given = {
        "CHAT_MODEL": "strong",
        "OPENAI_API_BASE": "http://127.0.0.1:4000/v1",
        "FT_FILE_PATH": str(folder),
        **values,
    }
    path = folder / "campaign.env"
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return read_environment(path)


def task(**values: Any) -> CampaignTask:
    return CampaignTask.model_validate({"model": "tiny", "benchmark": "aime25", **values})


def seen(environment: CampaignEnvironment) -> str:
    """All that an environment makes of a file, without what merely repeats it."""
    own = {name: value for name, value in vars(environment).items() if name != "shown"}
    return json.dumps(own, default=str, sort_keys=True)


@pytest.mark.parametrize(
    ("values", "branches", "steps"),
    [
        ({"MULTI_PROC_N": "3"}, 3, None),
        ({"STEP_SEMAPHORE": "2"}, 2, {"coding": 2, "running": 2}),
        ({"STEP_SEMAPHORE": '{"coding": 3, "running": 1}'}, 3, {"coding": 3, "running": 1}),
        ({"MULTI_PROC_N": "4", "STEP_SEMAPHORE": '{"running": 2}'}, 4, {"running": 2}),
    ],
)
def test_keys_of_parallel_steps_set_the_loops_at_once(
    folder: Path, values: dict[str, str], branches: int, steps: dict[str, int] | None
) -> None:
    body = environment(folder, **values).body

    assert (body["branches"], body.get("steps_at_once")) == (branches, steps)


@pytest.mark.parametrize("text", ["[2]", '{"coding": "many"}', "some"])
def test_a_semaphore_that_is_no_number_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(SubmissionError, match="STEP_SEMAPHORE"):
        environment(folder, STEP_SEMAPHORE=text)


@pytest.mark.parametrize("key", EVERY_KEY)
def test_every_published_key_has_its_effect_or_its_warning(key: str, folder: Path) -> None:
    value = UNUSUAL.get(key, "7")

    assert seen(environment(folder, **{key: value})) != seen(environment(folder))
    assert not any("unknown" in each for each in environment(folder, **{key: value}).warnings)


def test_the_published_template_starts_a_batch(folder: Path) -> None:
    text = TEMPLATE.read_text()
    assert all(f"\n{key}=" in f"\n{text}" for key in EVERY_KEY)
    path = folder / "template.env"
    path.write_text(text.replace("/path/to/files", str(folder)))

    (planned,) = plan_campaigns([CampaignTask()], read_environment(path))

    request = planned.request
    assert request.base_model == "Qwen/Qwen2.5-7B-Instruct"
    assert request.benchmark == "aime25"
    assert request.llm.model == "gpt-5"
    assert (request.llm.attempts, request.llm.retry_seconds) == (12, 5)
    assert request.llm.strip_reasoning
    assert (request.answer_cache.read, request.answer_cache.write) == (True, True)
    assert request.time_limits.training == 360_000
    assert request.time_limits.evaluation == 7 * 86_400
    assert request.time_limits.script == 28_800
    assert (request.training_rows, request.sample_rows) == (2000, 3)
    assert request.reuse_data
    assert request.budget.coding_attempts == 10
    assert request.samples_per_item == 4
    assert request.sampling.temperature > 0
    assert [each.name for each in request.datasets] == ["sums"]
    llms = request.script_llms
    assert llms is not None
    assert [[llm.model for llm in pool] for pool in (llms.strong, llms.weak)] == [
        ["gpt-5"],
        ["gpt-5-mini"],
    ]
    assert llms.calls_at_once == 10


def test_every_published_value_is_taken(folder: Path) -> None:
    text = PUBLISHED.read_text().replace("# FT_JUDGE", "FT_JUDGE")
    path = folder / "published.env"
    path.write_text(text.replace("/path/to/your/finetune/workspace", str(folder)))

    given = read_environment(path)
    (planned,) = plan_campaigns([task(benchmark=None)], given)

    request = planned.request
    assert (request.llm.model, request.llm.temperature) == ("gpt-5.2", 1)
    assert (request.llm.attempts, request.llm.retry_seconds) == (100, 5)
    assert (request.branches, request.steps_at_once) == (16, {"coding": 1, "running": 1})
    assert request.scenario.startswith("I need to enhance the model's performance")
    assert request.judge == RemoteModel(base_url=request.llm.base_url, model="gpt-5.1")
    assert request.script_llms is not None
    assert [each.model for each in request.script_llms.strong] == ["gpt-5", "gpt-5.1"]
    warned = " ".join(given.warnings)
    assert "MAX_RETRY is 12000, above 100, which is used" in warned
    assert "FT_API_MAX_WORKERS is 1000, above 256, which is used" in warned


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("CHAT_TEMPERATURE", "9"), ("RETRY_WAIT_SECONDS", "-1"), ("MULTI_PROC_N", "1000")),
        *(("FT_CODER_MAX_LOOP", "0"), ("FT_DATA_SAMPLE_COUNT", "99"), ("MAX_RETRY", "0")),
        *(("FT_DATA_PROCESSING_TIMEOUT", "1e9"), ("FT_UPPER_DATA_SIZE_LIMIT", "0")),
        *(("FT_BENCHMARK_NUM_RUNS", "5000"), ("CHAT_FREQUENCY_PENALTY", "-3")),
    ],
)
def test_a_value_out_of_bounds_is_clamped_with_a_warning(
    folder: Path, key: str, value: str
) -> None:
    given = environment(folder, **{key: value})

    assert any(each.startswith(f"{key} is ") for each in given.warnings)
    plan_campaigns([task()], given)


def test_the_last_of_two_values_counts(folder: Path) -> None:
    path = folder / "twice.env"
    path.write_text("CHAT_MODEL=first\nCHAT_MODEL=last\n")

    assert read_environment(path).body["llm"]["model"] == "last"


def test_a_judge_without_a_benchmark_that_asks_it_is_warned_of(folder: Path) -> None:
    given = environment(folder, FT_JUDGE_MODEL="gpt-5.1", FT_JUDGE_API_BASE="http://10.0.0.1/v1")

    (planned,) = plan_campaigns([task(benchmark="gsm8k")], given)

    assert planned.request.judge is None
    assert any(
        "FT_JUDGE_MODEL has no effect: the grader of gsm8k" in each for each in given.warnings
    )


def test_data_scripts_ask_at_the_endpoint_of_their_task(folder: Path) -> None:
    given = environment(
        folder,
        FT_WEAK_MODELS='["openai/small", "smaller"]',
        FT_API_MAX_WORKERS="1000",
        MAX_RETRY="7",
    )

    (planned,) = plan_campaigns([task(port=4001)], given)

    llms = planned.request.script_llms
    assert llms is not None
    assert [llm.model for llm in llms.strong] == ["strong"]  # CHAT_MODEL, as no other is named
    assert [llm.model for llm in llms.weak] == ["small", "smaller"]
    urls = {str(llm.base_url) for llm in llms.by_model.values()}
    assert urls == {"http://localhost:4001/v1"}
    assert {llm.attempts for llm in llms.by_model.values()} == {7}
    assert llms.calls_at_once == MOST_CALLS_AT_ONCE


def test_calls_at_once_without_models_are_warned_of(folder: Path) -> None:
    given = environment(folder, FT_API_MAX_WORKERS="10")

    assert any(each.startswith("FT_API_MAX_WORKERS") for each in given.warnings)
    (planned,) = plan_campaigns([task()], given)
    assert planned.request.script_llms is None


def test_values_of_a_task_are_on_top_of_the_environment(folder: Path) -> None:
    given = environment(
        folder, FT_BASE_MODEL="other", FT_TARGET_BENCHMARK="gsm8k", FT_USER_TARGET_SCENARIO="old"
    )

    (planned,) = plan_campaigns([task(scenario="new", port=4001, timeout="90m", gpus="2,3")], given)

    request = planned.request
    assert (request.base_model, request.benchmark) == ("tiny", "aime25")
    assert str(request.llm.base_url) == "http://localhost:4001/v1"
    assert request.budget.hours == 1.5
    assert request.devices == [2, 3]
    assert request.scenario.startswith("new\n")


def test_the_description_of_another_benchmark_is_not_used(folder: Path) -> None:
    given = environment(folder, FT_TARGET_BENCHMARK="gsm8k", FT_BENCHMARK_DESCRIPTION="of gsm8k")

    (planned,) = plan_campaigns([task()], given)

    assert "of gsm8k" not in planned.request.scenario
    assert describe_benchmark("aime25") in planned.request.scenario


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_each_benchmark_is_described_with_the_prompt_that_it_asks(name: str) -> None:
    assert BENCHMARKS[name].prompt in describe_benchmark(name)


def test_names_without_a_file_are_those_of_the_registry(folder: Path) -> None:
    given = environment(folder, FT_DATASET='["deepscaler", "sums"]')

    (planned,) = plan_campaigns([task()], given)

    ready = planned.ready("file-rows", {"sums": "file-sums"}, [])
    assert [(each.name, each.file) for each in ready.datasets] == [
        ("deepscaler", ""),
        ("sums", "file-sums"),
    ]


def test_tasks_on_the_same_cards_wait_for_each_other(folder: Path) -> None:
    cards = ["0,1", "2", "1", "0,1,2", ""]
    planned = plan_campaigns([task(gpus=each) for each in cards], environment(folder))

    assert predecessors(planned) == [[], [], [0], [0, 1, 2], []]
    assert planned[4].request.devices is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"benchmark": "aime99"}, r"tasks\[1\].benchmark: no benchmark 'aime99'; there are aime24"),
        ({"gpus": "0,x"}, r"tasks\[1\].gpus: 'x' is neither the index"),
        ({"gpus": "0,0"}, r"tasks\[1\].gpus: 0 is named twice"),
        ({"timeout": "soon"}, r"tasks\[1\].timeout: 'soon' is not a duration"),
        ({"benchmark": "math"}, r"tasks\[1\].benchmark: the rows of math are not below"),
    ],
)
def test_a_bad_task_is_named(values: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(SubmissionError, match=message):
        plan_campaigns([task(), task(**values)], environment(folder))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("CHAT_TEMPERATURE", "warm", "CHAT_TEMPERATURE"),
        ("FT_CODER_MAX_LOOP", "1.5", "FT_CODER_MAX_LOOP: '1.5' is not a whole number"),
        ("FT_BENCHMARK_PASS_K", "[1, 4]", "FT_BENCHMARK_PASS_K: .* one number"),
    ],
)
def test_a_bad_value_is_named_by_its_key(key: str, value: str, message: str, folder: Path) -> None:
    with pytest.raises(SubmissionError, match=message):
        environment(folder, **{key: value})


def test_an_unknown_field_of_a_task_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text('{"tasks": [{"model": "m", "gpu": "0"}]}')

    with pytest.raises(SubmissionError, match=r"tasks\[0\].gpu"):
        read_tasks(path)


@given(st.floats(1, 10_000, width=16), st.sampled_from("smhd"))
def test_durations_are_read_in_seconds(amount: float, unit: str) -> None:
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]

    assert read_duration(f"{amount:f}{unit}") == pytest.approx(amount * factor, rel=1e-4)


@given(st.lists(st.integers(0, 255), unique=True))
def test_cards_are_read_as_they_are_listed(cards: list[int]) -> None:
    assert read_cards(", ".join(map(str, cards))) == cards


def started(folder: Path, server: ScriptedServer, *options: str) -> int:
    """Run the command on three tasks, of which two are on one card."""
    environment(folder, OPENAI_API_KEY="sk-secret", HF_TOKEN="hf-secret")
    tasks = [{"model": "tiny", "benchmark": "aime25", "gpus": gpus} for gpus in ("0", "1", "0,2")]
    (folder / "tasks.json").write_text(json.dumps({"tasks": tasks}))
    arguments = ["campaign", "batch", str(folder / "tasks.json")]
    return main([*arguments, "--env-file", str(folder / "campaign.env"), *options])


def test_a_dry_run_prints_each_task_and_creates_nothing(
    folder: Path,
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)

    assert started(folder, server, "--dry-run") == 0

    printed = capsys.readouterr()
    assert server.received == []
    assert printed.out.count("tiny") == 3
    for shown in ("aime25", "sums", "task 0", "0, 2", "12h00m", "OPENAI_API_KEY", "****"):
        assert shown in printed.out
    assert "secret" not in printed.out + printed.err


def test_campaigns_are_created_in_order_and_told_whom_they_wait_for(
    folder: Path,
    server: ScriptedServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    uploaded = {
        "id": "file-1",
        "bytes": 35,
        "created_at": 1,
        "filename": "rows.jsonl",
        "purpose": "evals",
        "sha256": "0" * 64,
    }
    server.on(
        "/v1/files",
        lambda request: JSONResponse(
            uploaded if request.method == "POST" else {"object": "list", "data": []}
        ),
    )
    model = {"id": "tiny", "created": 1, "owned_by": "temper", "kind": "full"}
    server.on("/v1/models/tiny", JSONResponse(model))
    server.on("/v1/models", JSONResponse({"object": "list", "data": [model]}))
    server.on("/v1/campaigns", *(JSONResponse(campaign(f"campaign-{n}")) for n in range(3)))

    assert started(folder, server) == 0

    bodies = [json.loads(each.body) for each in server.received if each.path == "/v1/campaigns"]
    assert [body["after"] for body in bodies] == [[], [], ["campaign-0"]]
    assert [body["devices"] for body in bodies] == [[0], [1], [0, 2]]
    assert bodies[0]["file"] == "file-1"
    assert capsys.readouterr().out.split() == [f"campaign-{n}" for n in range(3)]
    assert not any(b"secret" in each.body for each in server.received)


def campaign(campaign_id: str) -> dict[str, Any]:
    return {
        "id": campaign_id,
        "object": "campaign",
        "status": "validating_files",
        "created_at": 1,
        "priority": 0,
        "attempt": 0,
        "base_model": "tiny",
        "scenario": "x",
        "budget": {},
    }
