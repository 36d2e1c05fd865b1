"""The options of a deployment: which engine has them, and for how long."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from services.contracts.serving import DeployModel
from services.inference.vllm.launch import AdapterSlots
from tests.support.engines.serving_worker import RunningServing, ServingWorker
from tests.support.threaded_server import LoopThread
from tests.unit.api.serving.test_chat import STEP_SECONDS, Meanwhile, ask

OPTIONS: dict[str, Any] = {"idle_seconds": 77, "engine": {"max_lora_rank": 8, "max_model_len": 64}}
SLOTS = AdapterSlots(rank=8, count=1)


def deploy(url: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{url}/v1/models/base/deploy", json=body, timeout=60)


def ends_idle(worker: ServingWorker, serving: RunningServing) -> None:
    serving.activity.leave("idle")
    worker.withdraw(serving)
    worker.succeed(serving)
    worker.kill(serving)


@pytest.fixture
def cpu_worker(url: str, home: Path) -> Iterator[ServingWorker]:
    with LoopThread() as loop:
        worker = ServingWorker(home, loop)
        yield worker
        worker.close()


def test_the_engine_of_the_next_request_has_the_options_of_the_one_that_was_idle(
    url: str, client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    deploy(url, OPTIONS)
    ends_idle(worker, worker.serve_next(SLOTS))

    pending = meanwhile(lambda: ask(client, "hi"))
    again = worker.serve_next(SLOTS).claim.job.request
    pending.result(STEP_SECONDS)

    assert again["idle_seconds"] == 77
    assert (again["engine"]["max_lora_rank"], again["engine"]["max_model_len"]) == (8, 64)


@pytest.mark.parametrize("was_idle", [False, True])
def test_a_model_that_was_undeployed_starts_without_options(
    url: str, client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile, was_idle: bool
) -> None:
    deploy(url, OPTIONS)
    if was_idle:
        ends_idle(worker, worker.serve_next(SLOTS))
    httpx.post(f"{url}/v1/models/base/undeploy", timeout=60)

    pending = meanwhile(lambda: ask(client, "hi"))
    again = worker.serve_next().claim.job.request
    pending.result(STEP_SECONDS)

    assert (again["idle_seconds"], again["engine"]["max_model_len"]) == (None, None)


@pytest.mark.parametrize(
    ("other", "param", "has"),
    [
        ({"idle_seconds": 7}, "idle_seconds", "77"),
        ({"engine": {"max_model_len": 128}}, "engine.max_model_len", "64"),
        ({"keep_warm": True, "gpus": 2}, "gpus", "null"),
    ],
)
def test_other_options_than_those_of_a_running_engine_are_refused(
    url: str, worker: ServingWorker, other: dict[str, Any], param: str, has: str
) -> None:
    options = {**OPTIONS, "engine": {**OPTIONS["engine"], "speculation": {"method": "ngram"}}}
    whole = DeployModel(keep_warm=True).model_dump(mode="json")  # as clients send it
    first = deploy(url, options).json()
    same = [deploy(url, body) for body in ({}, whole, options)]
    refused = deploy(url, other)

    assert {answer.json()["id"] for answer in same} == {first["id"]}
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (409, "deployed_differently")
    assert error["param"] == param
    assert f"{param} is {has}" in error["message"]
    assert [job.request["keep_warm"] for job in worker.jobs()] == [False]


def test_without_a_gpu_an_adapter_that_does_not_fit_gets_an_engine_of_its_own(
    url: str, client: openai.OpenAI, cpu_worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    deploy(url, {"keep_warm": True, "engine": {"max_lora_rank": 8}})
    shared = cpu_worker.serve_next(SLOTS)
    pending = meanwhile(lambda: ask(client, "hi", "team/large"))
    own = cpu_worker.serve_next(model="team/large")

    assert pending.result(STEP_SECONDS).model == "team/large"
    assert own.claim.job.request["model"] == "team/large"
    assert not shared.activity.outgrown
    assert ask(client, "hi", "team/small").model == "team/small"
    assert shared.engine.changes == ["+team/small"]


def test_without_a_gpu_an_adapter_that_has_no_rank_is_merged(
    url: str, client: openai.OpenAI, cpu_worker: ServingWorker, meanwhile: Meanwhile, home: Path
) -> None:
    (home / "models" / "small" / "adapter_config.json").write_text('{"peft_type": "IA3"}')
    pending = meanwhile(lambda: ask(client, "hi", "team/small"))
    own = cpu_worker.serve_next(model="team/small")

    assert pending.result(STEP_SECONDS).model == "team/small"
    assert own.claim.job.request["model"] == "team/small"


def test_without_a_gpu_adapters_share_their_base_again_after_it_was_idle(
    url: str, client: openai.OpenAI, cpu_worker: ServingWorker, meanwhile: Meanwhile
) -> None:
    deploy(url, OPTIONS)
    ends_idle(cpu_worker, cpu_worker.serve_next(SLOTS))

    pending = meanwhile(lambda: ask(client, "hi", "team/small"))
    again = cpu_worker.serve_next(SLOTS)

    assert pending.result(STEP_SECONDS).model == "team/small"
    assert again.claim.job.request["model"] == "base"
