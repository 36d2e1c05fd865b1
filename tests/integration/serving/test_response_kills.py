"""Background responses while gateways and engines are killed: all are answered, each once."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest
from openai.types.responses import Response

from tests.support.processes import Process, is_ready, running, running_service
from tests.support.waiting import wait_for

STEP_SECONDS = 120.0
WORKER = "tests.support.engines.stub_serving_worker"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "home" / "models" / "base"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (folder / "model.safetensors").touch()
    return {
        "TEMPER_HOME": str(tmp_path / "home"),
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_RETRY_SECONDS": "0.1",
        "TEMPER_CPU_SLOTS": "4",
    }


@pytest.fixture
def gateway(env: dict[str, str], tmp_path: Path) -> Iterator[tuple[Process, str]]:
    log = tmp_path / "gateway.log"
    with running_service("services.api", env, log) as (process, url):
        model = {"id": "base", "folder": "base"}
        assert httpx.post(f"{url}/v1/models", json=model, timeout=60).status_code == 200
        yield process, url
    assert "Traceback" not in log.read_text()


@pytest.fixture
def worker(gateway: object, env: dict[str, str], tmp_path: Path) -> Iterator[Process]:
    with running(WORKER, [], env, tmp_path / "worker.log") as worker:
        yield worker


@pytest.fixture
def client(gateway: tuple[Process, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway[1]}/v1", api_key="none", max_retries=0) as client:
        yield client


def begun(client: openai.OpenAI, prompt: str) -> tuple[str, int]:
    """The id of a streamed background response, and the number of its first text."""
    stream = client.responses.create(model="base", input=prompt, background=True, stream=True)
    identity = ""
    for event in stream:
        if event.type == "response.created":
            identity = event.response.id
        if event.type == "response.output_text.delta":
            stream.close()
            return identity, event.sequence_number
    raise AssertionError("the response has no text")


def ended(client: openai.OpenAI, identity: str) -> Response:
    def probe() -> Response | None:
        found = client.responses.retrieve(identity)
        return None if found.status in ("queued", "in_progress") else found

    return wait_for(probe, "the response has ended", STEP_SECONDS)


def rest_of(client: openai.OpenAI, identity: str, after: int) -> list[Any]:
    return list(client.responses.retrieve(identity, stream=True, starting_after=after))


def test_a_killed_gateway_loses_no_response(
    gateway: tuple[Process, str],
    worker: Process,
    client: openai.OpenAI,
    env: dict[str, str],
    tmp_path: Path,
) -> None:
    process, url = gateway
    gate = tmp_path / "gate"
    streamed = [begun(client, f"hold {gate}") for _ in range(5)]
    whole = [
        client.responses.create(model="base", input=f"hold {gate}", background=True).id
        for _ in range(20)
    ]
    process.kill()
    again = ["--port", url.rpartition(":")[2]]

    with running("services.api", again, env, tmp_path / "second.log") as second:
        wait_for(lambda: is_ready(second, url), "the gateway is ready", STEP_SECONDS)
        gate.touch()

        for identity, seen in streamed:
            events = rest_of(client, identity, seen)
            numbers = [event.sequence_number for event in events]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[0] == seen + 1
            assert [event.type for event in events].count("response.completed") == 1
            assert [item.type for item in ended(client, identity).output] == ["message"]
            assert ended(client, identity).output_text == "one two"
        for identity in whole:
            answer = ended(client, identity)
            assert (answer.status, len(answer.output)) == ("completed", 1)
            assert answer.output_text == f"echo: hold {gate}"
        assert "Traceback" not in second.log.read_text()


def test_a_killed_engine_is_replaced_in_the_middle_of_a_response(
    worker: Process, client: openai.OpenAI, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    identity, seen = begun(client, f"hold {gate}")
    engines = [
        child
        for child in psutil.Process(worker.pid).children(recursive=True)
        if WORKER in child.cmdline() and child.cmdline()[-1] != WORKER
    ]
    for engine in engines:
        os.kill(engine.pid, signal.SIGKILL)
    gate.touch()

    events = rest_of(client, identity, seen)

    assert engines
    assert events[-1].type == "response.completed"
    assert [item.type for item in events[-1].response.output] == ["message"]
    assert events[-1].response.output_text == "one two"
