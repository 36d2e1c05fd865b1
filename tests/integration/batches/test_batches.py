"""Batches through the unmodified ``openai`` package, the gateway and the evaluator's worker."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import openai
import psutil
import pytest
from openai.types import Batch

from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway
from tests.support.waiting import wait_for
from tests.unit.evaluator.chat_server import ChatServer, Reply, add, error

ENDED = ("completed", "failed", "expired", "cancelled")


class Batches:
    """Creates batches of additions over a chat server, which every test gives its own script."""

    def __init__(self, client: openai.OpenAI, gateway: GatewayClient, server: ChatServer) -> None:
        self.client = client
        self.gateway = gateway
        self.server = server

    def upload(self, lines: list[dict[str, Any]]) -> str:
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        return self.client.files.create(file=("batch.jsonl", content), purpose="batch").id

    def create(self, lines: list[dict[str, Any]], **extra: Any) -> Batch:
        return self.client.batches.create(
            input_file_id=self.upload(lines),
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"suite": "sums"},
            extra_body={"base_url": self.server.url, **extra},
        )

    def ended(self, batch: Batch) -> Batch:
        def probe() -> Batch | None:
            now = self.client.batches.retrieve(batch.id)
            return now if now.status in ENDED else None

        return wait_for(probe, f"{batch.id} has ended")

    def kept(self, batch: Batch) -> int:
        """How many answers are on disk."""
        path = self.gateway.home / "jobs" / batch.id / "output.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def lines(self, file_id: str | None) -> dict[str, dict[str, Any]]:
        assert file_id is not None
        text = self.client.files.content(file_id).text
        return {line["custom_id"]: line for line in map(json.loads, text.splitlines())}


def line(number: int, **body: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"{number}+1="}
    return {
        "custom_id": f"sum-{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "adder", "messages": [message], "temperature": 0, **body},
    }


def answer(output: dict[str, Any]) -> str:
    return str(output["response"]["body"]["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory, server: ChatServer
) -> Iterator[tuple[GatewayClient, str]]:
    folder = tmp_path_factory.mktemp("batches")
    settings = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_GRACE_SECONDS": "2",
        "TEMPER_RETRY_SECONDS": "0.1",
        "TEMPER_CPU_SLOTS": "2",
        "TEMPER_ALLOWED_ENDPOINTS": server.url.removesuffix("/v1"),
    }
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        running("services.evaluator", [], settings, folder / "worker.log"),
        GatewayClient(url, folder / "home") as gateway,
    ):
        yield gateway, url


@pytest.fixture
def batches(platform: tuple[GatewayClient, str], server: ChatServer) -> Iterator[Batches]:
    gateway, url = platform
    server.reset()
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield Batches(client, gateway, server)


def test_a_batch_answers_every_line(batches: Batches) -> None:
    lines = [line(number, seed=number) for number in range(40)]
    expiry = {"anchor": "created_at", "seconds": 86_400}
    made = batches.create(lines, output_expires_after=expiry)

    assert (made.object, made.endpoint) == ("batch", "/v1/chat/completions")
    assert (made.status, made.completion_window) == ("validating", "24h")
    assert (made.metadata, made.output_file_id) == ({"suite": "sums"}, None)
    assert made.expires_at == made.created_at + 24 * 3600
    done = batches.ended(made)
    assert (done.status, done.errors, done.error_file_id) == ("completed", None, None)
    assert done.request_counts is not None
    assert done.request_counts.to_dict() == {"total": 40, "completed": 40, "failed": 0}
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.output_tokens) == (40 * 7, 40 * 5)
    outputs = batches.lines(done.output_file_id)
    assert {key: answer(each) for key, each in outputs.items()} == {
        f"sum-{number}": f"The sum is {number + 1}" for number in range(40)
    }
    assert all(each["response"]["status_code"] == 200 for each in outputs.values())
    assert {body["seed"] for body in batches.server.bodies} == set(range(40))
    assert done.output_file_id is not None
    file = batches.client.files.retrieve(done.output_file_id)
    assert file.purpose == "batch_output"
    assert done.completed_at is not None
    assert file.expires_at == done.completed_at + 86_400
    assert next(iter(batches.client.batches.list(limit=1))).id == made.id


def test_requests_that_fail_are_in_the_error_file(batches: Batches) -> None:
    def script(prompt: str, times: int) -> Reply:
        if prompt.startswith("3+"):
            return error(400, "this prompt is not allowed")
        if prompt.startswith("4+") and times < 3:
            return error(503, "busy", **{"retry-after": "0"})
        return add(prompt, times)

    batches.server.script = script
    done = batches.ended(batches.create([line(number) for number in range(6)]))

    assert done.status == "completed"
    assert done.request_counts is not None
    assert done.request_counts.to_dict() == {"total": 6, "completed": 5, "failed": 1}
    assert answer(batches.lines(done.output_file_id)["sum-4"]) == "The sum is 5"
    (failed,) = batches.lines(done.error_file_id).values()
    assert (failed["custom_id"], failed["response"]["status_code"]) == ("sum-3", 400)
    assert failed["response"]["body"]["error"]["message"] == "this prompt is not allowed"


@pytest.mark.drill
def test_a_killed_batch_sends_no_answered_request_again(batches: Batches) -> None:
    batches.server.script = lambda prompt, times: (
        Reply(hold=True) if int(prompt.partition("+")[0]) % 4 == 3 else add(prompt, times)
    )
    made = batches.create([line(number) for number in range(20)], max_concurrency=8)
    wait_for(lambda: batches.server.asked["19+1="] == 1, "every request was sent")
    wait_for(lambda: batches.kept(made) == 15, "15 answers are kept")

    os.kill(child_of(made.id), signal.SIGKILL)
    wait_for(lambda: batches.server.asked["3+1="] > 1, "the next attempt has begun")
    batches.server.script = add
    batches.server.release()

    done = batches.ended(made)
    assert done.status == "completed"
    assert len(batches.lines(done.output_file_id)) == 20
    answered = [number for number in range(20) if number % 4 != 3]
    assert {batches.server.asked[f"{number}+1="] for number in answered} == {1}


def child_of(job_id: str) -> int:
    """The process that sends the requests of a batch."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "services.evaluator.batch.child" in command and job_id in command[-1]:
            return int(process.pid)
    raise AssertionError(f"no process of {job_id}")


@pytest.mark.drill
def test_a_cancelled_batch_keeps_its_answers(batches: Batches) -> None:
    batches.server.script = lambda prompt, times: (
        Reply(hold=True) if prompt.startswith("2+") else add(prompt, times)
    )
    made = batches.create([line(number) for number in range(3)])
    wait_for(
        lambda: (
            (counts := batches.client.batches.retrieve(made.id).request_counts)
            and counts.completed == 2
        ),
        "two requests are answered",
    )

    cancelling = batches.client.batches.cancel(made.id)

    assert cancelling.status in ("cancelling", "cancelled")
    cancelled = batches.ended(made)
    assert cancelled.status == "cancelled"
    assert cancelled.cancelled_at is not None
    assert set(batches.lines(cancelled.output_file_id)) == {"sum-0", "sum-1"}


def test_a_bad_line_fails_the_batch_before_anything_is_sent(batches: Batches) -> None:
    failed = batches.ended(batches.create([line(0), line(1), line(0)]))

    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data
    (problem,) = failed.errors.data
    assert problem.code == "invalid_batch_file"
    assert problem.line == 3
    assert problem.message == "custom_id 'sum-0' is that of an earlier row"
    assert (failed.output_file_id, batches.server.bodies) == (None, [])


def test_requests_that_cannot_be_queued_are_refused(batches: Batches) -> None:
    file = batches.upload([line(0)])
    create = batches.client.batches.create

    with pytest.raises(openai.BadRequestError, match="no file 'file-none'"):
        create(
            input_file_id="file-none",
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )
    with pytest.raises(openai.PermissionDeniedError, match="TEMPER_ALLOWED_ENDPOINTS"):
        create(
            input_file_id=file,
            endpoint="/v1/embeddings",
            completion_window="24h",
            extra_body={"base_url": "http://169.254.169.254/v1"},
        )
