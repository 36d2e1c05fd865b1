"""Rollouts through the gateway and the evaluator's worker, which also runs evaluations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.rollout.rollout_job import (
    ADD,
    RIGHT_BOX,
    add,
    question,
    reply,
    tokenizer_folder,
)
from tests.support.engines.token_server import MODEL, TokenServer
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway
from tests.unit.evaluator.chat_server import ChatServer, Reply, calling


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rollouts")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TokenServer]:
    models = folder / "home" / "models"
    models.mkdir(parents=True)
    weights = tokenizer_folder(models / "adder")
    (weights / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (weights / "model.safetensors").touch()
    with TokenServer(weights, add, reply) as server:
        yield server


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer() as chat:
        yield chat


@pytest.fixture(scope="module")
def gateway(folder: Path, server: TokenServer, chat: ChatServer) -> Iterator[GatewayClient]:
    """A gateway and a one-slot worker that may both reach the servers."""
    home = folder / "home"
    settings = {
        "TEMPER_HOME": str(home),
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_GRACE_SECONDS": "2",
        "TEMPER_CPU_SLOTS": "1",
        "TEMPER_ALLOWED_ENDPOINTS": f"{server.origin},{chat.url.removesuffix('/v1')}",
        "TEMPER_ENDPOINT_KEYS": json.dumps({server.origin: "secret"}),
    }
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        running("services.evaluator", [], settings, folder / "worker.log"),
        GatewayClient(url, home) as client,
    ):
        posted(client.http, "/v1/models", {"id": "adder", "folder": "adder"})
        yield client


def posted(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def uploaded(http: httpx.Client, rows: list[dict[str, Any]]) -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    files = {"file": ("rows.jsonl", content)}
    return str(http.post("/v1/files", files=files, data={"purpose": "evals"}).json()["id"])


def rollouts(server: TokenServer, **fields: Any) -> dict[str, Any]:
    tool = ADD.model_copy(update={"config": {"url": f"{server.origin}/tool"}})
    return {
        "model": {"base_url": f"{server.origin}/v1", "model": MODEL},
        "tokenizer": "adder",
        "samples_per_prompt": 2,
        "tools": [tool.model_dump(mode="json")],
        "multi_turn": {"multi_turn_enable": True, "max_total_response_length": 512},
        "sampling": {"max_tokens": 256},
        "rewards": [RIGHT_BOX.model_dump(mode="json")],
        **fields,
    }


def test_one_worker_runs_rollouts_and_evaluations(
    gateway: GatewayClient, server: TokenServer, chat: ChatServer
) -> None:
    http = gateway.http
    prompts = uploaded(http, [{"question": question(n), "gold": 2 * n + 1} for n in range(5)])
    samples = uploaded(http, [{"prompt": f"{n}+1=", "gold": n + 1} for n in range(3)])

    played = posted(http, "/v1/rollouts", rollouts(server, file=prompts))["id"]
    inline = posted(
        http,
        "/v1/rollouts",
        rollouts(server, prompts=[{"question": question(9), "gold": 19}], samples_per_prompt=1),
    )["id"]
    evaluated = posted(
        http,
        "/v1/evaluations",
        {
            "model": {"base_url": chat.url, "model": "adder"},
            "file": samples,
            "grader": {"type": "numeric"},
        },
    )["id"]

    for job_id in (played, inline, evaluated):
        gateway.wait_until(job_id, "succeeded")
    statistics = http.get(f"/v1/rollouts/{played}").json()["statistics"]
    assert (statistics["prompts"], statistics["trajectories"]) == (5, 10)
    assert statistics["reward"]["mean"] == 1.0
    assert server.authorizations == {"Bearer secret"}
    path = f"/v1/rollouts/{played}/trajectories"
    assert len(http.get(path).json()["data"]) == 10
    whole = http.get(f"{path}/traj-3-1").json()
    assert whole["turns"][0]["calls"][0]["reply"] == "7"
    assert sum(whole["response_mask"]) < len(whole["response_mask"])
    (only,) = http.get(f"/v1/rollouts/{inline}/trajectories").json()["data"]
    assert only["answer"] == "The sum is \\boxed{19}<|im_end|>"
    assert http.get(f"/v1/evaluations/{evaluated}").json()["metrics"]["accuracy"] == 1.0
    (worker,) = http.get("/v1/workers").json()["data"]
    assert {"evaluation", "rollout"} <= set(worker["queues"])


def test_an_evaluation_with_tools_shows_its_conversations(
    gateway: GatewayClient, server: TokenServer, chat: ChatServer
) -> None:
    def asking_the_tool(text: str, _times: int) -> Reply:
        if not text.endswith("="):
            return Reply(f"The sum is {text}")
        left, right = text.rstrip("=").split("+")
        return calling("add", a=int(left), b=int(right))

    chat.reset(asking_the_tool)
    http = gateway.http
    tool = ADD.model_copy(update={"config": {"url": f"{server.origin}/tool"}})
    body = {
        "model": {"base_url": chat.url, "model": "adder"},
        "file": uploaded(http, [{"prompt": f"{n}+1=", "gold": n + 1} for n in range(3)]),
        "grader": {"type": "numeric"},
        "tools": [tool.model_dump(mode="json")],
    }

    job_id = posted(http, "/v1/evaluations", body)["id"]
    gateway.wait_until(job_id, "succeeded")

    path = f"/v1/evaluations/{job_id}"
    metrics = http.get(path).json()["metrics"]
    assert (metrics["accuracy"], metrics["tool_use"]["calls"]) == (1.0, 3)
    row = http.get(f"{path}/results?order=input").json()["data"][2]
    assert (row["answer"], row["finish_reason"]) == ("The sum is 3", "answered")
    whole = http.get(f"{path}/trajectories/{row['tools']['trajectory']}").json()
    assert whole["turns"][0]["calls"][0]["arguments"] == {"a": 2, "b": 1}
    assert whole["turns"][0]["calls"][0]["shown"] == "3"
    offered = {tool["function"]["name"] for asked in chat.bodies for tool in asked["tools"]}
    assert offered == {"add"}


def test_an_unusable_prompt_fails_the_job_naming_its_row(
    gateway: GatewayClient, server: TokenServer
) -> None:
    file_id = uploaded(gateway.http, [{"question": "a", "gold": 1}, {"text": "b"}])

    job_id = posted(gateway.http, "/v1/rollouts", rollouts(server, file=file_id))["id"]

    error = gateway.wait_until(job_id, "failed")["error"]
    assert (error["code"], error["param"]) == ("invalid_prompt_file", "file")
    assert "row 2: messages is missing" in error["message"]
