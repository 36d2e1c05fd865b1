"""The tokens of a trajectory over REST. No worker runs these jobs."""

import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from services.contracts.base import JsonObject
from services.rollouts.log.log import IndexedLog
from services.rollouts.log.updates import UpdateLog
from tests.support.models.worded_tokenizer import write_worded_tokenizer
from tests.support.rollouts import saying
from tests.support.trajectories import trajectory
from tests.unit.rollouts.agents.agents import play_by

PROMPTS = [{"question": "1+1=", "gold": 2}]


@pytest.fixture
def path(http: httpx.Client, home: Path) -> str:
    """The tokens of a trajectory with three tokens of prompt, two sampled and one inserted."""
    folder = home / "models" / "worded"
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(home / "models" / "base" / name, folder)
    write_worded_tokenizer(folder, {1: "1+", 2: "1", 3: "=", 7: " two", 8: "\n"})
    http.post("/v1/models", json={"id": "worded", "folder": "worded"})
    job = http.post("/v1/rollouts", json={"model": "worded", "prompts": PROMPTS}).json()
    made = trajectory(tokens=3).model_copy(
        update={
            "response_token_ids": [7, 8, 7],
            "response_mask": [1, 0, 1],
            "log_probs": [-0.5, 0.0, -2.0],
            "policy_versions": [4, -1, 5],
        }
    )
    job_dir = home / "jobs" / job["id"]
    job_dir.mkdir(parents=True, exist_ok=True)
    with IndexedLog(job_dir) as log:
        log.append(made)
    return f"/v1/rollouts/{job['id']}/trajectories/{made.id}/tokens"


def column(page: dict[str, Any], name: str) -> list[Any]:
    return [token[name] for token in page["data"]]


def test_tokens_have_their_text_and_known_values(http: httpx.Client, path: str) -> None:
    page = http.get(path).json()

    assert (page["total"], page["next_start"], page["text_error"]) == (6, None, None)
    assert column(page, "text") == ["1+", "1", "=", " two", "\n", " two"]
    assert column(page, "id") == [1, 2, 3, 7, 8, 7]
    assert column(page, "origin") == ["prompt"] * 3 + ["sampled", "inserted", "sampled"]
    assert column(page, "log_prob") == [None, None, None, -0.5, None, -2.0]
    assert column(page, "policy_version") == [None, None, None, 4, None, 5]


def test_tokens_have_the_values_of_their_update(http: httpx.Client, path: str, home: Path) -> None:
    job_dir = home / "jobs" / path.split("/")[3]
    values = np.array([[-0.25, 1.5, 0.75], [-2.5, 0.125, -0.75]], np.float32)
    with UpdateLog(job_dir, keep=0) as log:
        log.append(3, ["traj-0-0"], [values])

    page = http.get(path).json()

    assert page["step"] == 3
    assert column(page, "learner_log_prob")[3:] == [-0.25, None, -2.5]
    assert column(page, "entropy")[3:] == [1.5, None, 0.125]
    assert column(page, "advantage")[3:] == [0.75, None, -0.75]


def test_a_log_probability_that_the_update_did_not_compute_is_null(
    http: httpx.Client, path: str, home: Path
) -> None:
    job_dir = home / "jobs" / path.split("/")[3]
    values = np.array([[np.nan, 1.5, 0.75], [-2.5, 0.125, -0.75]], np.float32)
    with UpdateLog(job_dir, keep=0) as log:
        log.append(3, ["traj-0-0"], [values])

    page = http.get(path).json()

    assert column(page, "learner_log_prob")[3:] == [None, None, -2.5]
    assert column(page, "entropy")[3:] == [1.5, None, 0.125]


def test_tokens_are_paged_by_position(http: httpx.Client, path: str) -> None:
    page = http.get(path, params={"start": 2, "limit": 2}).json()

    assert (column(page, "position"), column(page, "text")) == ([2, 3], ["=", " two"])
    assert page["next_start"] == 4
    assert http.get(path, params={"start": 6}).json()["data"] == []
    assert http.get(path, params={"limit": 10_001}).status_code == 400


def test_tokens_without_a_tokenizer_have_ids_and_a_reason(
    http: httpx.Client, path: str, home: Path
) -> None:
    (home / "models" / "worded" / "tokenizer.json").unlink()

    page = http.get(path).json()

    assert column(page, "text") == [None] * 6
    assert column(page, "id") == [1, 2, 3, 7, 8, 7]
    assert page["text_error"] == "worded has no tokenizer.json that can be read"
    missing = http.get(path.replace("traj-0-0", "traj-9-9"))
    assert missing.json()["error"]["code"] == "trajectory_not_found"


def test_the_turns_of_an_agent_are_a_tree_with_tokens(http: httpx.Client, home: Path) -> None:
    async def plays(session: JsonObject) -> JsonObject:
        asked: list[JsonObject] = [{"role": "user", "content": "hi"}]
        headers = {"authorization": f"Bearer {session['api_key']}"}
        async with httpx.AsyncClient(base_url=session["base_url"], headers=headers) as client:

            async def said(*messages: JsonObject) -> JsonObject:
                answer = await client.post("/chat/completions", json={"messages": messages})
                message: JsonObject = answer.json()["choices"][0]["message"]
                return message

            first = await said(*asked)
            for text in ("left", "right"):
                again = await said(*asked, first, {"role": "user", "content": text})
            await said(*asked, first, {"role": "user", "content": "right"}, again, *asked)
        return {}

    played = play_by(plays, saying("one<end>", "two<end>", "three<end>", "four<end>"))
    job = http.post("/v1/rollouts", json={"model": "base", "prompts": PROMPTS}).json()
    job_dir = home / "jobs" / job["id"]
    job_dir.mkdir(parents=True, exist_ok=True)
    with IndexedLog(job_dir) as log:
        log.append(played)
    path = f"/v1/rollouts/{job['id']}/trajectories/{played.id}"

    turns = http.get(f"{path}/turns").json()
    rest = http.get(f"{path}/turns", params={"start": 2, "limit": 1}).json()

    assert (turns["total"], turns["next_start"]) == (4, None)
    assert column(turns, "parent") == [None, 0, 1, 0]
    assert column(turns, "sequence") == [0, 0, 0, 1]
    assert (column(rest, "number"), rest["next_start"]) == ([2], 3)
    for turn, text in zip(turns["data"], ("one", "three", "four", "two"), strict=True):
        params = {"sequence": turn["sequence"], "start": turn["token_start"]}
        params["limit"] = turn["sampled_tokens"]
        tokens = http.get(f"{path}/tokens", params=params).json()
        assert "".join(map(chr, column(tokens, "id")[:-1])) == text
    missing = http.get(f"{path}/tokens", params={"sequence": 2})
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "sequence")
