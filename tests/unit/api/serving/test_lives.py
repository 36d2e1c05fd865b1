"""Servings that are cold, killed, stopping, outgrown or rejected, as clients see them."""

from concurrent.futures import Future
from typing import Any

import httpx
import openai
import pytest

from services.api.serving import locator
from services.contracts.jobs import JobError, JobStatus
from services.core.artifacts import Artifacts
from services.inference.relay_protocol import is_kept_warm
from services.inference.vllm.launch import AdapterSlots
from services.jobs.reconcile import give_up_claim
from services.jobs.store import get_job
from tests.support.engines.serving_worker import ServingWorker
from tests.unit.api.serving.test_chat import STEP_SECONDS, Meanwhile, ask

SLOTS = AdapterSlots(rank=8, count=1)


def text(answer: Future[Any]) -> str:
    return str(answer.result(STEP_SECONDS).choices[0].message.content)


@pytest.mark.parametrize("settings", [{"serving_wait_seconds": 0.0}])
def test_a_cold_model_is_answered_with_503_and_when_to_retry(
    url: str, worker: ServingWorker
) -> None:
    body = {"model": "base", "messages": [{"role": "user", "content": "hi"}]}

    cold = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)

    assert (cold.status_code, cold.json()["error"]["code"]) == (503, "model_not_ready")
    assert int(cold.headers["retry-after"]) > 0


@pytest.mark.parametrize("settings", [{"serving_wait_seconds": 0.0}])
def test_a_warm_model_answers_without_any_wait_allowed(
    url: str, client: openai.OpenAI, worker: ServingWorker
) -> None:
    httpx.post(f"{url}/v1/models/base/deploy", json={}, timeout=60)
    worker.serve_next()

    assert ask(client, "hi").choices[0].message.content == "echo: hi"


@pytest.mark.parametrize("settings", [{"serving_wait_seconds": 1.0}])
def test_requests_for_a_serving_with_a_dead_worker_time_out(
    url: str, client: openai.OpenAI, worker: ServingWorker
) -> None:
    httpx.post(f"{url}/v1/models/base/deploy", json={}, timeout=60)
    worker.kill(worker.serve_next())  # the job still runs, by its lease

    with pytest.raises(openai.InternalServerError, match="is not ready"):
        ask(client, "hi")


def test_many_first_requests_start_one_engine(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    pending = [meanwhile(lambda: ask(client, "hi")) for _ in range(6)]
    worker.serve_next()

    assert {text(each) for each in pending} == {"echo: hi"}
    assert len(worker.jobs()) == 1


def test_a_request_is_answered_after_the_engine_was_killed_and_restarted(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    first = meanwhile(lambda: ask(client, "hi"))
    serving = worker.serve_next()
    assert text(first) == "echo: hi"

    worker.kill(serving)
    second = meanwhile(lambda: ask(client, "still there?"))
    with worker.database.write() as session:
        lost = JobError(code="engine_died", message="vLLM was killed")
        give_up_claim(session, get_job(session, serving.claim.job.id), lost, counts=True)
    again = worker.resume(serving)

    assert text(second) == "echo: still there?"
    assert (again.claim.job.id, len(worker.jobs())) == (serving.claim.job.id, 1)


def test_the_endpoint_of_an_earlier_epoch_is_not_used(
    client: openai.OpenAI,
    worker: ServingWorker,
    meanwhile: Meanwhile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locator, "ROUTE_SECONDS", 0.0)
    first = meanwhile(lambda: ask(client, "hi"))
    serving = worker.serve_next()
    text(first)
    with worker.database.write() as session:
        lost = JobError(code="worker_lost", message="lost")
        give_up_claim(session, get_job(session, serving.claim.job.id), lost, counts=True)
    successor = worker.resume(serving, publish=False)
    sent_to_the_first = len(serving.engine.bodies)

    second = meanwhile(lambda: ask(client, "hi"))
    worker.publish(successor)

    assert text(second) == "echo: hi"
    assert len(serving.engine.bodies) == sent_to_the_first


def test_a_request_to_a_stopping_serving_is_answered_by_its_successor(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    first = meanwhile(lambda: ask(client, "hi"))
    leaving = worker.serve_next()
    text(first)
    leaving.activity.leave("idle")
    second = meanwhile(lambda: ask(client, "anyone?"))

    worker.withdraw(leaving)
    worker.succeed(leaving)
    worker.kill(leaving)
    worker.serve_next()

    assert text(second) == "echo: anyone?"
    assert [row.status for row in worker.jobs()] == [JobStatus.SUCCEEDED, JobStatus.RUNNING]


def test_an_engine_that_cannot_start_is_answered_with_its_cause(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    first = meanwhile(lambda: ask(client, "hi"))
    worker.fail(worker.claim_next(), "vLLM exited with code 1: no such architecture")

    with pytest.raises(openai.ConflictError, match="no such architecture"):
        first.result(STEP_SECONDS)
    with pytest.raises(openai.ConflictError, match="no such architecture"):
        ask(client, "again")
    assert len(worker.jobs()) == 1


def test_adapters_share_the_engine_of_their_base(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    first = meanwhile(lambda: ask(client, "hi", "team/small"))
    serving = worker.serve_next(SLOTS)
    assert first.result(STEP_SECONDS).model == "team/small"

    assert ask(client, "hi", "base").model == "base"
    assert ask(client, "hi", "team/other").model == "team/other"

    assert serving.claim.job.request["adapter"] == "team/small"
    assert serving.engine.changes == ["+team/small", "-team/small", "+team/other"]
    assert len(worker.jobs()) == 1


def test_an_adapter_of_a_larger_rank_replaces_the_engine(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile, url: str
) -> None:
    httpx.post(
        f"{url}/v1/models/base/deploy", json={"keep_warm": True, "idle_seconds": 77}, timeout=60
    )
    serving = worker.serve_next(SLOTS)
    pending = meanwhile(lambda: ask(client, "hi", "team/large"))
    assert worker.wait_until(lambda: serving.activity.outgrown)

    worker.withdraw(serving)
    worker.succeed(serving, outgrown=True)
    successor = worker.serve_next(AdapterSlots(rank=64, count=1))

    assert pending.result(STEP_SECONDS).model == "team/large"
    request = successor.claim.job.request
    assert (request["adapter"], request["keep_warm"], request["idle_seconds"]) == (
        "team/large",
        True,
        77,
    )


@pytest.mark.parametrize("settings", [{"served_models": ["team/*"], "serving_wait_seconds": 60.0}])
def test_requests_start_only_the_models_that_the_operator_allows(
    client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile, url: str
) -> None:
    with pytest.raises(openai.PermissionDeniedError, match="TEMPER_SERVED_MODELS"):
        ask(client, "hi", "base")

    assert httpx.post(f"{url}/v1/models/base/deploy", json={}, timeout=60).status_code == 200
    worker.serve_next()

    assert ask(client, "hi", "base").choices[0].message.content == "echo: hi"


def test_deploying_twice_changes_one_serving_and_undeploying_stops_it(
    url: str, worker: ServingWorker, home: Any
) -> None:
    first = httpx.post(f"{url}/v1/models/base/deploy", json={}, timeout=60).json()
    again = httpx.post(
        f"{url}/v1/models/team/small/deploy", json={"keep_warm": True}, timeout=60
    ).json()

    assert first["id"].startswith("serve-")
    assert (again["id"], again["model"], again["keep_warm"]) == (first["id"], "base", True)
    assert is_kept_warm(Artifacts(home).job(first["id"]))

    ended = httpx.post(f"{url}/v1/models/base/undeploy", timeout=60).json()
    assert ended["servings"] == [first["id"]]
    assert httpx.get(f"{url}/v1/servings/{first['id']}", timeout=60).json()["status"] == "cancelled"
    assert httpx.post(f"{url}/v1/models/base/undeploy", timeout=60).json()["servings"] == []


def test_more_gpus_than_any_worker_has_are_rejected(url: str, worker: ServingWorker) -> None:
    refused = httpx.post(f"{url}/v1/models/base/deploy", json={"gpus": 4}, timeout=60)

    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_device_fits")


def test_a_client_that_disconnects_while_waiting_blocks_nothing(
    url: str, client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    body = {"model": "base", "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=0.5)

    second = meanwhile(lambda: ask(client, "hi"))
    worker.serve_next()

    assert text(second) == "echo: hi"
