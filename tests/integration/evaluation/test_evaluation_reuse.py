"""An equal evaluation through the gateway and the evaluator's worker, which has no device."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.evaluator.evaluation.handler import EvaluationHandler
from services.evaluator.evaluation.results import RESULTS, ResultRow
from services.evaluator.evaluation.totals import RunningTotals
from services.jobs.store import get_job, move_job
from services.jobs.worker.settings import WorkerSettings
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway
from tests.support.runtime.stand_in import add_runtime
from tests.support.waiting import wait_for

ROWS = 4


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayClient]:
    """A gateway with a model, and a worker without slots for local models."""
    home = tmp_path / "home"
    model = home / "models" / "base"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (model / "model.safetensors").write_bytes(b"weights")
    add_runtime(home / "runtimes", "vllm")
    settings = {
        "TEMPER_HOME": str(home),
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_GRACE_SECONDS": "1",
        "TEMPER_CPU_SLOTS": "0",
    }
    with (
        running_gateway(settings, tmp_path / "gateway.log") as url,
        running("services.evaluator", [], settings, tmp_path / "worker.log"),
        GatewayClient(url, home) as client,
    ):
        answer = client.http.post("/v1/models", json={"id": "base", "folder": "base"})
        assert answer.status_code == 200, answer.text
        yield client


def uploaded(gateway: GatewayClient) -> str:
    rows = [{"prompt": f"{index}+1=", "gold": index + 1} for index in range(ROWS)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    files, data = {"file": ("rows.jsonl", content)}, {"purpose": "evals"}
    return str(gateway.http.post("/v1/files", files=files, data=data).json()["id"])


def created(gateway: GatewayClient, **fields: Any) -> str:
    body = {"model": "base", "file": uploaded(gateway), **fields}
    answer = gateway.http.post("/v1/evaluations", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def shown(gateway: GatewayClient, job_id: str) -> dict[str, Any]:
    return dict(gateway.http.get(f"/v1/evaluations/{job_id}").json())


def finish(gateway: GatewayClient, job_id: str) -> None:
    """Let a queued evaluation end as one that asked its model."""
    totals = RunningTotals()
    lines = []
    for index in range(ROWS):
        row = ResultRow(index=index, gold=[str(index + 1)], answer="1", correct=index == 0)
        totals.add(row)
        lines.append(row.model_dump_json() + "\n")
    folder = Artifacts(gateway.home).job(job_id)
    (folder / RESULTS).write_text("".join(lines))
    handler = EvaluationHandler(WorkerSettings(home=gateway.home))
    database = Database(f"sqlite:///{gateway.home / 'temper.db'}")
    with database.write() as session:
        job = move_job(session, get_job(session, job_id), JobStatus.RUNNING, "moved")
        result = {"metrics": totals.metrics().model_dump(mode="json")}
        kept = handler.complete(session, job, result)
        move_job(session, job, JobStatus.SUCCEEDED, "moved", result=kept)
    database.close()


def test_the_rows_of_an_equal_evaluation_are_served_without_a_device_and_after_its_deletion(
    gateway: GatewayClient,
) -> None:
    first = created(gateway)
    wait_for(lambda: shown(gateway, first)["status"] == "queued", "it waits for a device")
    finish(gateway, first)

    again = created(gateway, metadata={"run": "two"})
    gateway.wait_until(again, "succeeded")
    assert gateway.http.delete(f"/v1/evaluations/{first}").status_code == 200

    evaluation = shown(gateway, again)
    rows = gateway.http.get(f"/v1/evaluations/{again}/results").json()["data"]
    assert (evaluation["cached_from"], evaluation["not_cached"]) == (first, None)
    assert (evaluation["metrics"]["samples"], evaluation["metrics"]["accuracy"]) == (4, 0.25)
    assert [row["answer"] for row in rows] == ["1"] * ROWS
    messages = [event["message"] for event in gateway.events(again)]
    assert f"The answers and grades of {first} are reused" in messages

    other = created(gateway, sampling={"max_tokens": 5})
    wait_for(lambda: shown(gateway, other)["status"] == "queued", "it waits for a device")
    reason = f"The model is asked: compared with {again}: sampling.max_tokens differs"
    assert reason in [event["message"] for event in gateway.events(other)]
