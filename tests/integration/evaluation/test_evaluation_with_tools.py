"""The evaluation child with tools: programs in the real sandbox, called by a scripted chat endpoint
and by a tiny model that the child serves."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from services.contracts.engine import VllmOptions
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.multi_turn import MultiTurn, Tool
from services.contracts.rollouts.trajectories import CallOutcome, Trajectory
from services.core.operator_environment import VARIABLE, OperatorEnvironment
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.rollouts.chat import open_chat_tokens
from services.rollouts.log.log import read_indexed
from services.rollouts.tools.declaration import declarations
from tests.integration.evaluation.evaluation_job import (
    DEADLINE,
    EvaluationJob,
    prompt,
    without_times,
)
from tests.integration.rollout.memorized_rollouts import memorize
from tests.support.chat_templates.conversation import Conversation, ToolTurn, call
from tests.support.chat_templates.families import FAMILIES
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import running_sandbox
from tests.unit.evaluator.chat_server import ChatServer, Reply, calling, error

SEVERAL_TURNS = MultiTurn(multi_turn_enable=True, max_total_response_length=2048)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a worker tells its child of the running sandbox."""
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        operator = OperatorEnvironment(sandbox_url=sandbox.url)
        yield {VARIABLE: operator.model_dump_json()}


def calculating(text: str, _times: int) -> Reply:
    """A model that has its sums calculated, and says what the program printed."""
    if text.endswith("="):
        return calling("code_interpreter", code=f"print({text.rstrip('=')})")
    return Reply(f"The sum is {text.strip()}")


def job_of(folder: Path, server: ChatServer, samples: int, **fields: Any) -> EvaluationJob:
    endpoint = RemoteEndpoint.model_validate({"base_url": server.url, "model": "adder"})
    given = {"tools": [Tool(class_name="sandbox")], "multi_turn": SEVERAL_TURNS, **fields}
    return EvaluationJob(folder, endpoint, samples, **given)


def conversation(job: EvaluationJob, name: str) -> Trajectory:
    return {each.id: each for each in read_indexed(job.folder)}[name]


def test_answers_come_from_programs_in_the_sandbox(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    def sometimes_wrong(text: str, times: int) -> Reply:
        if text == prompt(1):
            return error(400, "this prompt is refused")
        return (
            calling("code_interpreter", code="1/0")
            if text == prompt(2)
            else calculating(text, times)
        )

    with ChatServer(sometimes_wrong) as server:
        job = job_of(tmp_path / "job", server, 6)
        job.run(DEADLINE, **environment)

    metrics = job.metrics()
    assert (metrics.samples, metrics.correct, metrics.errors, metrics.unanswered) == (6, 4, 1, 1)
    assert metrics.tool_use is not None
    assert (metrics.tool_use.calls, metrics.tool_use.endings) == (5, {"answered": 5})
    assert metrics.tool_use.per_sample["turns"].mean == 2.0
    rows = {row.index: row for row in job.rows()}
    assert (rows[1].answer, rows[1].status_code) == (None, 400)
    assert (rows[3].answer, rows[3].correct) == ("The sum is 7", True)
    assert rows[3].tools is not None
    kept = conversation(job, rows[3].tools.trajectory)
    (answered,) = kept.turns[0].calls
    assert (answered.outcome, answered.arguments, answered.shown) == (
        CallOutcome.ANSWERED,
        {"code": "print(3+4)"},
        "7\n",
    )
    assert rows[2].tools is not None
    (raised,) = conversation(job, rows[2].tools.trajectory).turns[0].calls
    assert "ZeroDivisionError" in (raised.shown or "")
    assert (rows[2].correct, rows[2].tools.failed_calls) == (False, 0)  # that is a reply, too


def test_a_killed_child_asks_no_answered_sample_again(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with ChatServer(calculating) as server:
        uninterrupted = job_of(tmp_path / "whole", server, 24)
        uninterrupted.run(DEADLINE, **environment)

    def hold_every_fourth(text: str, times: int) -> Reply:
        reply = calculating(text, times)
        reply.hold = text in {prompt(index) for index in range(3, 24, 4)}
        return reply

    with ChatServer(hold_every_fourth) as server:
        job = job_of(tmp_path / "killed", server, 24, max_concurrency=8)
        with job.child(**environment) as process:
            job.wait_for_rows(18)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
        asked = server.asked.copy()
        server.release()
        job.run(DEADLINE, **environment)

    again = {text for text in server.asked if server.asked[text] > asked[text]}
    assert {text for text in again if text.endswith("=")} == {
        prompt(index) for index in range(3, 24, 4)
    }
    assert sorted(row.index for row in job.rows()) == list(range(24))
    assert len(list(read_indexed(job.folder))) == 24
    assert without_times(job.metrics()) == without_times(uninterrupted.metrics())


def test_a_tool_that_does_not_respond_fails_the_job_before_the_first_sample(
    tmp_path: Path,
) -> None:
    nowhere = OperatorEnvironment(sandbox_url="http://127.0.0.1:9", attempts=1)
    with ChatServer(calculating) as server:
        job = job_of(tmp_path / "job", server, 3)
        job.run(DEADLINE, **{VARIABLE: nowhere.model_dump_json()})

    assert job.failure()["code"] == "tool_unavailable"
    assert "code_interpreter" in job.failure()["message"]
    assert server.bodies == []


@pytest.mark.drill
def test_failing_calls_of_the_sandbox_change_no_score_and_are_counted(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A tenth of the calls fails once, and another tenth each time."""

    def often_wrong(text: str, times: int) -> Reply:
        said = calculating(text, times)
        return said if text.endswith("=") or int(text) % 3 else Reply("The sum is 0")

    lost = {index for index in range(40) if index % 10 == 3}
    flaky = {index for index in range(40) if index % 10 == 7}
    operator = OperatorEnvironment.model_validate_json(environment[VARIABLE])
    with (
        ChatServer(often_wrong) as server,
        faulty_relay(operator.sandbox_url, lost=sums_of(lost), flaky=sums_of(flaky)) as url,
    ):
        job = job_of(tmp_path / "job", server, 40)
        failing = operator.model_copy(update={"sandbox_url": url})
        job.run(DEADLINE, **{VARIABLE: failing.model_dump_json()})
        healthy = job_of(tmp_path / "healthy", server, 40)
        healthy.run(DEADLINE, **environment)

    metrics = job.metrics()
    kept = [row for row in healthy.rows() if row.index not in lost]
    assert (metrics.samples, metrics.errors, metrics.left_out) == (36, 0, 4)
    assert metrics.left_out_causes == {InfrastructureCause.MISCONFIGURED: 4}
    assert metrics.correct == sum(bool(row.correct) for row in kept)
    assert 0.5 < metrics.accuracy == metrics.correct / len(kept) < 0.8
    rows = {row.index: row for row in job.rows()}
    assert {index for index, row in rows.items() if row.left_out is not None} == lost
    repaired = [rows[index].tools for index in flaky]
    assert all(each is not None for each in repaired)
    played = [conversation(job, each.trajectory) for each in repaired if each is not None]
    assert all(each.turns[0].calls[0].attempts > 1 for each in played)


def sums_of(indexes: set[int]) -> set[str]:
    """The programs that `calculating` has run for these rows."""
    return {f"print({prompt(index).rstrip('=')})" for index in indexes}


@contextmanager
def faulty_relay(sandbox_url: str, *, lost: set[str], flaky: set[str]) -> Iterator[str]:
    """The URL of a proxy of the sandbox that knows no route for the programs ``lost``, and breaks
    the first request for each of ``flaky``."""
    pending = set(flaky)

    class Relay(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            code = json.loads(body)["code"]
            if code in pending:
                pending.remove(code)
                self.close_connection = True
                return
            if code in lost:
                self.send_error(404)
                return
            asked = httpx.post(f"{sandbox_url}{self.path}", content=body, timeout=DEADLINE)
            self.send_response(asked.status_code)
            self.send_header("content-length", str(len(asked.content)))
            self.end_headers()
            self.wfile.write(asked.content)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


PYTHON = Tool(
    class_name="sandbox",
    tool_schema={
        "type": "function",
        "function": {
            "name": "python",
            "description": "Runs Python.",
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["code"],
            },
        },
    },
)


@pytest.mark.runtime
def test_a_local_model_calls_its_tools(tmp_path: Path, environment: dict[str, str]) -> None:
    vllm = installed_runtime("vllm").python
    weights = tmp_path / "weights"
    weights.mkdir()
    FAMILIES["qwen3"].write(weights)
    chat = open_chat_tokens(weights)
    (declared,) = declarations([PYTHON], "tools")
    assert declared.schema is not None
    sums = [known_sum(index) for index in range(3)]
    memorize(weights, chat, [declared.schema], sums)
    options = VllmOptions(max_model_len=2048, dtype="float32", cpu_kv_cache_gib=0.1)
    model = LocalModel(path=weights, runtime_python=vllm, options=options)

    fields = {"tools": [PYTHON], "multi_turn": SEVERAL_TURNS}
    job = EvaluationJob(tmp_path / "job", model, 3, **fields)
    job.run(300, **environment)

    metrics = job.metrics()
    assert (metrics.samples, metrics.correct, metrics.errors) == (3, 3, 0)
    row = next(row for row in job.rows() if row.index == 2)
    assert (row.answer or "").endswith("The sum is 5.")
    assert (row.extracted, row.finish_reason) == ("5", "answered")
    assert row.tools is not None
    kept = conversation(job, row.tools.trajectory)
    assert kept.turns[0].calls[0].shown == "5\n"
    assert kept.sampled_tokens == row.completion_tokens
    assert 0 < kept.sampled_tokens < len(kept.response_token_ids)


def known_sum(index: int) -> Conversation:
    """A sum that the model has calculated before it answers."""
    asked = {"role": "user", "content": prompt(index)}
    turn = ToolTurn([call(0, f"print({prompt(index).rstrip('=')})")], [f"{2 * index + 1}\n"])
    return Conversation([turn], f"The sum is {2 * index + 1}.", before=(asked,))
