"""Rollouts over REST, and trajectories of jobs. No worker runs these jobs."""

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from services.contracts.rollouts.trajectories import CallOutcome, FinishReason
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.parquet import write_parquet
from services.rollouts.log.updates import UpdateLog
from tests.support.evaluation.trajectory_files import read_parquet
from tests.support.trajectories import call, trajectory

SANDBOX = {"class_name": "sandbox"}
NESTED = json.loads("[" * 150 + "]" * 150)
SEVERAL_TURNS = {"multi_turn_enable": True, "max_total_response_length": 2048}


@pytest.fixture(scope="module")
def file_id(client: openai.OpenAI) -> str:
    row = b'{"question": "1+1=", "gold": "2"}\n'
    return client.files.create(file=("prompts.jsonl", row), purpose="evals").id


def create(http: httpx.Client, file_id: str, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/rollouts", json={"model": "base", "file": file_id, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_rollout_job_shows_its_request(http: httpx.Client, file_id: str) -> None:
    rewards = [{"name": "box", "weight": 2.0, "reward": {"type": "retool"}}]

    made = create(
        http,
        file_id,
        prompt_type="qwen_retool",
        samples_per_prompt=4,
        tools=[SANDBOX],
        multi_turn={**SEVERAL_TURNS, "max_tool_calls": 3},
        rewards=rewards,
    )

    assert made["id"].startswith("rollout-")
    assert (made["object"], made["status"]) == ("rollout", "validating_files")
    assert (made["model"], made["file"], made["samples_per_prompt"]) == ("base", file_id, 4)
    assert made["multi_turn"]["max_tool_calls"] == 3
    assert made["multi_turn"]["max_tool_response_length"] == 256
    assert made["tools"][0]["class_name"] == "sandbox"
    assert made["rewards"][0]["weight"] == 2.0
    assert made["statistics"] is None
    shown = http.get(f"/v1/rollouts/{made['id']}").json()
    assert shown | {"queue_reason": None} == made


def test_prompts_can_be_part_of_the_request(http: httpx.Client) -> None:
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}

    made = http.post("/v1/rollouts", json=body).json()

    assert (made["object"], made["file"]) == ("rollout", None)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "missing"}, "model"),
        ({"file": "file-missing"}, "file"),
        ({"model": {"base_url": "http://a.example/v1", "model": "m"}}, "tokenizer"),
        ({"tokenizer": "base"}, "tokenizer"),
        ({"file": None}, "file"),
        ({"prompts": [{"question": "x"}]}, "file"),
        ({"file": None, "prompts": [{"question": "x"}, {"text": "x"}]}, "prompts[1]"),
        ({"file": None, "prompts": [{"question": "x", "extra": NESTED}]}, "prompts[0]"),
        ({"multi_turn": {"multi_turn_enable": True, "async_engine": False}}, "async_engine"),
        ({"multi_turn": {**SEVERAL_TURNS, "tool_parser_format": "none"}}, "tool_parser_format"),
        ({"multi_turn": SEVERAL_TURNS, "tools": [{"class_name": "unheard.of"}]}, "tools[0]"),
        ({"tools": [SANDBOX]}, "multi_turn.multi_turn_enable"),
        ({"samples_per_prompt": 0}, "samples_per_prompt"),
        ({"rewards": [{"name": "x", "reward": {"type": "unheard_of"}}]}, "rewards"),
        (
            {
                "rewards": [
                    {"name": "x", "reward": {"type": "retool"}},
                    {"name": "x", "reward": {"type": "search_em"}},
                ]
            },
            "rewards[1].name",
        ),
        (
            {"rewards": [{"name": "x", "reward": {"type": "reward_model", "model": "missing"}}]},
            "rewards",
        ),
        (
            {
                "file": None,
                "prompts": [{"question": "x"}],
                "rewards": [{"name": "x", "reward": {"type": "retool"}}],
            },
            "prompts[0].gold",
        ),
    ],
)
def test_an_invalid_rollout_job_is_rejected_by_field(
    http: httpx.Client, file_id: str, fields: dict[str, Any], param: str
) -> None:
    answer = http.post("/v1/rollouts", json={"model": "base", "file": file_id, **fields})

    error = answer.json()["error"]
    assert answer.status_code == 400, error
    assert param in error["param"]


@pytest.mark.parametrize(
    "fields",
    [
        {"model": {"base_url": "http://a.example/v1", "model": "m"}, "tokenizer": "base"},
        {
            "multi_turn": SEVERAL_TURNS,
            "tools": [
                {
                    "class_name": "sandbox",
                    "config": {"sandbox_fusion_url": "http://169.254.169.254/run_code"},
                }
            ],
        },
        {"rewards": [{"name": "x", "reward": {"type": "http", "url": "http://a.example/"}}]},
        {"rewards": [{"name": "x", "reward": {"type": "callable", "function": "os.getcwd"}}]},
    ],
)
def test_resources_not_allowed_by_the_operator_are_forbidden(
    http: httpx.Client, file_id: str, fields: dict[str, Any]
) -> None:
    answer = http.post("/v1/rollouts", json={"model": "base", "file": file_id, **fields})

    assert answer.status_code == 403, answer.text


def test_rollout_jobs_are_listed_cancelled_and_included_in_all_jobs(
    http: httpx.Client, file_id: str
) -> None:
    label = uuid.uuid4().hex
    ids = [create(http, file_id, metadata={"suite": label})["id"] for _ in range(2)]
    query = {"metadata[suite]": label}

    listed = http.get("/v1/rollouts", params=query).json()["data"]
    everywhere = http.get("/v1/jobs", params={**query, "kind": "rollout"}).json()["data"]
    cancelled = http.post(f"/v1/rollouts/{ids[0]}/cancel").json()
    events = http.get(f"/v1/rollouts/{ids[0]}/events").json()["data"]

    assert [job["id"] for job in listed] == [job["id"] for job in everywhere] == ids[::-1]
    assert cancelled["status"] == "cancelled"
    assert events[0]["message"] == "Cancelled before it ran"
    assert http.get(f"/v1/evaluations/{ids[0]}").status_code == 404


def test_trajectories_are_paged_sorted_and_filtered(
    http: httpx.Client, file_id: str, home: Path
) -> None:
    job_id = create(http, file_id)["id"]
    path = f"/v1/rollouts/{job_id}/trajectories"
    assert http.get(path).json()["data"] == []

    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(0, reward=0.5, tokens=3))
        log.append(trajectory(1, reward=1.0, tokens=9, calls=[call(outcome=CallOutcome.FAILED)]))
        log.append(trajectory(2, reward=0.0, tokens=1, finish_reason=FinishReason.LENGTH))

    first = http.get(path, params={"sort": "reward", "limit": 2}).json()
    rest = http.get(path, params={"sort": "reward", "after": first["last_id"]}).json()
    failed = http.get(path, params={"errors": "true"}).json()["data"]
    short = http.get(path, params={"max_length": 3, "order": "asc"}).json()["data"]

    assert [each["prompt_index"] for each in first["data"] + rest["data"]] == [1, 0, 2]
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert [(each["id"], each["errors"], each["tool_calls"]) for each in failed] == [
        ("traj-1-0", 1, 1)
    ]
    assert [each["id"] for each in short] == ["traj-0-0", "traj-2-0"]
    assert short[0]["question"] == "question 0"
    assert "response_token_ids" not in short[0]
    assert http.get(path, params={"after": "traj-9-9"}).status_code == 400


def test_a_fine_tune_has_trajectories(http: httpx.Client, training_file: str, home: Path) -> None:
    body = {"model": "base", "training_file": training_file}
    job_id = http.post("/v1/fine_tuning/jobs", json=body).json()["id"]
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(5))

    path = f"/v1/fine_tuning/jobs/{job_id}/trajectories"

    assert [each["id"] for each in http.get(path).json()["data"]] == ["traj-5-0"]
    assert http.get(f"{path}/traj-5-0").json()["prompt_index"] == 5
    assert http.get(f"/v1/rollouts/{job_id}/trajectories").status_code == 404


def test_trajectories_can_be_downloaded_once_complete(
    http: httpx.Client, file_id: str, home: Path
) -> None:
    job_id = create(http, file_id)["id"]
    path = f"/v1/rollouts/{job_id}/content"
    early = http.get(path)

    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    made = [trajectory(n) for n in range(3)]
    write_parquet(made, folder / "trajectories.parquet")
    (folder / "copy.parquet").write_bytes(http.get(path).content)

    assert (early.status_code, early.json()["error"]["code"]) == (404, "content_not_ready")
    assert read_parquet(folder / "copy.parquet") == made


def test_a_trajectory_is_returned_in_full(http: httpx.Client, file_id: str, home: Path) -> None:
    job_id = create(http, file_id)["id"]
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True)
    made = trajectory(3, reward=1.0, reward_components={"box": 1.0}, calls=[call()])
    with IndexedLog(folder) as log:
        log.append(made)

    shown = http.get(f"/v1/rollouts/{job_id}/trajectories/{made.id}")

    assert shown.json() == made.model_dump(mode="json")
    missing = http.get(f"/v1/rollouts/{job_id}/trajectories/traj-0-0")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "trajectory_not_found")
    assert http.get(f"/v1/fine_tuning/jobs/{job_id}/trajectories").status_code == 404


def test_trajectories_are_searched_page_by_page(
    http: httpx.Client, file_id: str, home: Path
) -> None:
    job_id = create(http, file_id)["id"]
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        for prompt in range(6):
            replies = [call(reply="Straße in Köln")] if prompt % 2 else []
            log.append(trajectory(prompt, calls=replies))
    path = f"/v1/rollouts/{job_id}/trajectories"

    first = http.get(path, params={"text": "KÖLN", "order": "asc", "limit": 2}).json()
    rest = http.get(path, params={"text": "köln", "order": "asc", "after": first["last_id"]}).json()

    assert [each["prompt_index"] for each in first["data"]] == [1, 3]
    assert (first["has_more"], first["last_id"]) == (True, "traj-3-0")
    assert [each["prompt_index"] for each in rest["data"]] == [5]
    assert rest["has_more"] is False
    none = http.get(path, params={"text": "nowhere"}).json()
    assert (none["data"], none["has_more"]) == ([], False)
    question = http.get(path, params={"text": "Question 4"}).json()["data"]
    assert [each["prompt_index"] for each in question] == [4]


def test_trajectories_and_rewards_are_filtered_by_step(
    http: httpx.Client, training_file: str, home: Path
) -> None:
    body = {"model": "base", "training_file": training_file, "suffix": "succeed"}
    job_id = http.post("/v1/fine_tuning/jobs", json=body).json()["id"]
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log, UpdateLog(folder, keep=0) as updates:
        for prompt, reward in enumerate([0.0, 1.0, 1.0, None, 0.5]):
            log.append(trajectory(prompt, reward=reward))
        updates.append(1, ["traj-0-0", "traj-1-0"], None)
        updates.append(2, ["traj-2-0"], None)
    path = f"/v1/fine_tuning/jobs/{job_id}/trajectories"

    listed = http.get(path, params={"step": 1, "order": "asc"}).json()["data"]
    rewards = http.get(f"{path}/rewards", params={"bins": 2}).json()

    assert [each["id"] for each in listed] == ["traj-0-0", "traj-1-0"]
    assert (rewards["rewarded"], rewards["unrewarded"], rewards["mean"]) == (4, 1, 0.625)
    assert (rewards["edges"], rewards["counts"]) == ([0.0, 0.5, 1.0], [1, 3])
    assert rewards["steps"] == [
        {"step": 1, "mean": 0.5, "counts": [1, 1]},
        {"step": 2, "mean": 1.0, "counts": [0, 1]},
    ]
    of_step = http.get(f"{path}/rewards", params={"step": 2}).json()
    assert (of_step["rewarded"], len(of_step["counts"])) == (1, 20)
    none = http.get(f"{path}/rewards", params={"step": 9}).json()
    assert (none["rewarded"], none["edges"], none["mean"]) == (0, [], None)
    assert http.get(f"{path}/rewards", params={"bins": 101}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"agent": {"type": "callable", "function": "os.system"}}, 403, "agent.function"),
        ({"agent": {"type": "http", "url": "http://10.0.0.1/play"}}, 403, "agent.url"),
        (
            {"agent": {"type": "http", "url": "http://10.0.0.1/play"}, "tools": [SANDBOX]},
            400,
            "tools",
        ),
        ({"rewards": [{"name": "own", "reward": {"type": "agent"}}]}, 400, "rewards"),
    ],
)
def test_an_agent_is_one_that_the_operator_allows(
    http: httpx.Client, file_id: str, fields: dict[str, Any], status: int, param: str
) -> None:
    answer = http.post("/v1/rollouts", json={"model": "base", "file": file_id, **fields})

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
