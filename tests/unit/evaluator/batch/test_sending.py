"""What becomes of a batch's requests: answers, failures, expiry, and what is kept of them."""

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.batches.batches import ERROR_FILE, OUTPUT_FILE, BatchEndpoint, BatchResult
from services.contracts.errors import JobFailed
from services.core.operator_environment import OperatorEnvironment
from services.core.process.reporter import Reporter
from services.evaluator.batch import server
from services.evaluator.batch.child import send_batch
from services.evaluator.batch.spec import BatchSpec
from services.evaluator.child_process import ChildContext
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.inference.clients.retries import model_retries
from services.inference.vllm.launch import Routes
from tests.unit.evaluator.batch.test_validation import line
from tests.unit.evaluator.chat_server import ChatServer, Reply, add, error


def send(
    folder: Path, server: ChatServer, numbers: range, *, expires_in: float = 3600.0
) -> BatchResult:
    requests = folder / "requests.jsonl"
    requests.write_text("".join(json.dumps(line(number)) + "\n" for number in numbers))
    spec = BatchSpec(
        model=RemoteEndpoint.model_validate({"base_url": server.url, "model": "adder"}),
        model_name="adder",
        requests=requests,
        endpoint=BatchEndpoint.CHAT_COMPLETIONS,
        expires_at=time.time() + expires_in,
        max_concurrency=4,
        timeout_seconds=60.0,
    )
    context = ChildContext(folder, Reporter(folder), OperatorEnvironment(), "secret")
    return asyncio.run(send_batch(spec, context))


def lines_of(path: Path) -> dict[str, JsonObject]:
    return {each["custom_id"]: each for each in map(json.loads, path.read_text().splitlines())}


def test_bodies_and_answers_pass_unchanged(tmp_path: Path) -> None:
    with ChatServer() as server:
        result = send(tmp_path, server, range(3))

    assert result.counts.model_dump() == {"total": 3, "completed": 3, "failed": 0}
    assert server.authorizations == {"Bearer secret"}
    key = json.dumps
    sent = sorted(server.bodies, key=key)
    assert sent == sorted((line(number)["body"] for number in range(3)), key=key)
    response: Any = lines_of(tmp_path / OUTPUT_FILE)["sum-2"]["response"]
    assert response["body"]["object"] == "chat.completion"
    assert response["body"]["usage"]["total_tokens"] == 12
    assert (tmp_path / ERROR_FILE).read_bytes() == b""


def test_what_the_window_leaves_unanswered_expires(tmp_path: Path) -> None:
    with ChatServer() as server:
        result = send(tmp_path, server, range(5), expires_in=-1.0)

    assert result.expired
    assert result.counts.model_dump() == {"total": 5, "completed": 0, "failed": 5}
    assert not server.bodies
    errors: Any = lines_of(tmp_path / ERROR_FILE)
    assert {each["error"]["code"] for each in errors.values()} == {"batch_expired"}


def test_another_attempt_asks_failed_requests_alone(tmp_path: Path) -> None:
    def refuse_odd(prompt: str, times: int) -> Reply:
        odd = int(prompt.partition("+")[0]) % 2
        return error(400, "odd") if odd else add(prompt, times)

    with ChatServer(refuse_odd) as server:
        first = send(tmp_path, server, range(6))
        server.reset()
        second = send(tmp_path, server, range(6))

        assert sorted(server.asked) == ["1+1=", "3+1=", "5+1="]
    assert (first.counts.completed, first.counts.failed) == (3, 3)
    assert (second.counts.completed, second.counts.failed) == (6, 0)
    assert second.usage.total_tokens == 6 * 12
    assert len(lines_of(tmp_path / OUTPUT_FILE)) == 6
    assert (tmp_path / ERROR_FILE).read_bytes() == b""


def test_a_server_that_refuses_everything_fails_the_batch(tmp_path: Path) -> None:
    with (
        ChatServer(lambda *_: error(401, "wrong key")) as server,
        pytest.raises(JobFailed, match="wrong key"),
    ):
        send(tmp_path, server, range(40))


def test_requests_outlast_a_storm_of_refusals_for_lack_of_capacity(tmp_path: Path) -> None:
    busy = Reply(status=429, headers={"retry-after": "0"})

    with ChatServer(lambda prompt, times: busy if times <= 20 else add(prompt, times)) as server:
        result = send(tmp_path, server, range(6))

        assert set(server.asked.values()) == {21}
    assert result.counts.model_dump() == {"total": 6, "completed": 6, "failed": 0}


@pytest.mark.parametrize(
    "body", [b'{"error": {"message": "overloaded"}}', b'{"choices": []}', b'{"choices": null}']
)
def test_an_answer_without_choices_is_retried_and_then_the_error_of_its_row(
    tmp_path: Path, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_waits = partial(model_retries, first_wait_seconds=0.0, longest_wait_seconds=0.0)
    monkeypatch.setattr(server, "model_retries", without_waits)

    def odd(prompt: str, times: int) -> Reply:
        broken = prompt.startswith("1+") or times == 1
        return Reply(body=body) if broken else add(prompt, times)

    with ChatServer(odd) as chat:
        result = send(tmp_path, chat, range(2))

        assert chat.asked["0+1="] == 2
    assert result.counts.model_dump() == {"total": 2, "completed": 1, "failed": 1}
    (row,) = lines_of(tmp_path / ERROR_FILE).values()
    assert row["error"]["code"] == "request_failed"
    assert ("overloaded" if b"error" in body else "choices") in row["error"]["message"]


def test_half_a_character_costs_its_text_alone(tmp_path: Path) -> None:
    halves = b'{"choices": [{"message": {"content": "half \\ud83d", "x": NaN}}]}'

    def odd(prompt: str, times: int) -> Reply:
        if prompt.startswith("1+"):
            return Reply(status=400, body=b'{"error": {"message": "half \\ud83d"}}')
        return Reply(body=halves)

    with ChatServer(odd) as server:
        send(tmp_path, server, range(2))

    answered, refused = tmp_path / OUTPUT_FILE, tmp_path / ERROR_FILE
    body = lines_of(answered)["sum-0"]["response"]["body"]
    assert body["choices"] == [{"message": {"content": "half \ufffd", "x": None}}]
    assert "half \ufffd" in str(lines_of(refused)["sum-1"]["response"]["body"])


def test_an_engine_of_its_own_reads_tools_and_ends_as_the_model_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Routes] = []

    with ChatServer() as chat:

        @asynccontextmanager
        async def served(_model: Any, _folder: Any, _reporter: Any, routes: Routes) -> Any:
            asked.append(routes)
            engine = SimpleNamespace(
                base_url=chat.url, api_key="secret", watch=asyncio.Event().wait
            )
            yield engine, "own"

        monkeypatch.setattr(server, "served", served)
        requests = tmp_path / "requests.jsonl"
        lines = [line(0), line(1, stop_token_ids=None), line(2, stop_token_ids=[7])]
        requests.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        spec = BatchSpec(
            model=LocalModel(
                path=tmp_path, runtime_python=Path(sys.executable), stop_token_ids=[5, 6]
            ),
            model_name="adder",
            requests=requests,
            endpoint=BatchEndpoint.CHAT_COMPLETIONS,
            expires_at=time.time() + 3600,
            max_concurrency=4,
            timeout_seconds=60.0,
        )
        context = ChildContext(tmp_path, Reporter(tmp_path), OperatorEnvironment(), None)
        result = asyncio.run(send_batch(spec, context))

    assert result.counts.completed == 3
    assert [routes.tools for routes in asked] == [True]
    ends = {body["messages"][0]["content"]: body["stop_token_ids"] for body in chat.bodies}
    assert ends == {"0+1=": [5, 6], "1+1=": [5, 6], "2+1=": [7]}
