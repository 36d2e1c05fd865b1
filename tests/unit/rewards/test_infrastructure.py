"""Rewards that the infrastructure fails leave a sample out, and others leave it without reward."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from services.contracts.errors import JobFailed
from services.contracts.failures import InfrastructureCause as Cause
from services.core.operator_environment import OperatorEnvironment
from services.rewards.factory import check_rewards_respond
from tests.support.rewards import rewarded, trajectory, weighted
from tests.unit.inference.scripted_server import (
    COMPLETION,
    Behavior,
    ScriptedServer,
    answer,
    reset,
    running_server,
)

STARVED = {
    "status": "TimeLimitExceeded",
    "execution_time": 4.0,
    "cpu_time": 0.5,
    "wait_time": 3.4,
}
ASLEEP = {**STARVED, "wait_time": 0.1}
PROGRAM = "```python\nwhile True: pass\n```"
PYTHON = {"type": "python", "name": "p", "source": "def grade(sample, item): return 1"}
NOTHING_RAN: dict[str, Any] = {"passed": 0, "cases": [{"status": "NotRun"}]}
HERE = "tests.unit.rewards.test_infrastructure"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def cause(text: str, reward: dict[str, Any], server: ScriptedServer, **fields: Any) -> Cause | None:
    """Why the sample is left out; it has no reward."""
    environment = OperatorEnvironment(
        sandbox_url=server.url.removesuffix("/v1"),
        allowed_callables=(f"{HERE}.score",),
        attempts=1,
    )
    given = rewarded(trajectory(text, **fields), reward, environment=environment)
    assert given.reward is None
    assert given.reward_error
    return None if given.left_out is None else given.left_out.cause


def cases(result: dict[str, Any]) -> dict[str, Any]:
    return {"status": "Failed", "passed": 0, "cases": [{"status": "Failed", "run_result": result}]}


def test_tests_without_processor_time_are_not_wrong(server: ScriptedServer) -> None:
    server.script = [answer(body=cases(STARVED))]
    extra = {"tests": [{"input": "1", "output": "2"}]}
    found = cause(PROGRAM, {"type": "code_tests"}, server, extra=extra)
    assert found is Cause.NO_PROCESSOR_TIME


def test_tests_of_a_program_that_sleeps_are_wrong(server: ScriptedServer) -> None:
    server.script = [answer(body=cases(ASLEEP))]
    sandbox = OperatorEnvironment(sandbox_url=server.url.removesuffix("/v1"))
    sample = trajectory(PROGRAM, extra={"tests": [{"input": "1", "output": "2"}]})
    judged = rewarded(sample, {"type": "code_tests"}, environment=sandbox)
    assert (judged.reward, judged.left_out) == (0.0, None)


REFUSED = answer(422, body={"error": {"message": "memory_limit_MB: is above 4096"}})
NOT_INSTALLED = answer(body={"status": "SandboxError", "message": "not installed", **NOTHING_RAN})
CODE = {"type": "code_tests", "memory_limit_mb": 8192}
CHECKED = {"type": "code_tests", "checker": {"field": "checker"}}


def checked_before_a_job(
    server: ScriptedServer, reward: dict[str, Any], *, outages: bool = False
) -> None:
    sandbox = OperatorEnvironment(sandbox_url=server.url.removesuffix("/v1"), attempts=1)
    asyncio.run(check_rewards_respond(weighted(reward), sandbox, outages=outages))


@pytest.mark.parametrize("reward", [CODE, CHECKED, PYTHON])
def test_limits_that_the_sandbox_refuses_fail_the_job_at_startup(
    server: ScriptedServer, reward: dict[str, Any]
) -> None:
    server.script = [REFUSED]
    with pytest.raises(JobFailed, match="memory_limit_MB: is above 4096") as failed:
        checked_before_a_job(server, reward)
    assert failed.value.code == "reward_unavailable"


@pytest.mark.parametrize("reward", [CODE, CHECKED, PYTHON])
def test_a_key_that_the_gateway_refuses_fails_the_job_at_startup(
    server: ScriptedServer, reward: dict[str, Any]
) -> None:
    refused = {"error": {"message": "the API key is missing", "code": "invalid_api_key"}}
    server.script = [answer(401, body=refused)]
    with pytest.raises(JobFailed, match="invalid_api_key") as failed:
        checked_before_a_job(server, reward)
    assert failed.value.code == "reward_unavailable"


def test_the_limits_of_every_sample_are_checked(server: ScriptedServer) -> None:
    server.script = [answer(body={"status": "Success", "passed": 1, "cases": []})]
    checked_before_a_job(server, {**CODE, **CHECKED, "run_timeout": 99})
    ((_path, body),) = server.requests
    assert (body["memory_limit_MB"], body["run_timeout"]) == (8192, 99)
    assert body["checker"]["memory_limit_MB"] == 8192


def test_a_language_that_is_not_installed_fails_the_job_at_startup(server: ScriptedServer) -> None:
    server.script = [NOT_INSTALLED]
    with pytest.raises(JobFailed, match="not installed"):
        checked_before_a_job(server, {"type": "code_tests", "language": "ruby"})


@pytest.mark.parametrize("reward", [CODE, PYTHON])
def test_an_outage_does_not_fail_a_job_that_begins(
    server: ScriptedServer, reward: dict[str, Any]
) -> None:
    server.script = [answer(500)]
    checked_before_a_job(server, reward)
    with pytest.raises(JobFailed, match="500"):
        checked_before_a_job(server, reward, outages=True)


def judge(server: ScriptedServer) -> dict[str, Any]:
    return {
        "type": "judge",
        "model": {"base_url": server.url, "model": "judge"},
        "prompt": "Grade {{ sample.output_text }}",
    }


def completion(text: str) -> Behavior:
    message = {"role": "assistant", "content": text}
    return answer(body={**COMPLETION, "choices": [{"message": message}]})


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        (reset, Cause.RESET),
        (answer(503), Cause.OVERLOADED),
        (answer(500), Cause.SERVER_ERROR),
        (answer(401), Cause.MISCONFIGURED),
        (answer(body=b"<html>"), Cause.UNREADABLE),
        (answer(400), None),  # the answer may be too long for the judge
        (completion("I like it."), None),
    ],
)
def test_a_judge(server: ScriptedServer, behavior: Behavior, expected: Cause | None) -> None:
    server.script = [behavior]
    assert cause("4", judge(server), server) is expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "Failed", "run_result": STARVED}, Cause.NO_PROCESSOR_TIME),
        ({"status": "Failed", "run_result": ASLEEP}, None),
        ({"status": "SandboxError", "message": "lost"}, Cause.SERVICE_ERROR),
    ],
)
def test_a_program_that_grades(
    server: ScriptedServer, result: dict[str, Any], expected: Cause | None
) -> None:
    server.script = [answer(body=result)]
    assert cause("4", PYTHON, server) is expected
    multi = {"type": "multi", "name": "m", "graders": {"p": PYTHON}, "calculate_output": "p"}
    assert cause("4", multi, server) is expected


def score(trajectory: dict[str, Any], what: str) -> float:
    if what == "unavailable":
        raise ConnectionError("the database is down")
    raise ValueError("no number in the answer")


@pytest.mark.parametrize(("what", "expected"), [("unavailable", Cause.SERVICE_ERROR), ("", None)])
def test_a_function(server: ScriptedServer, what: str, expected: Cause | None) -> None:
    reward = {"type": "callable", "function": f"{HERE}.score", "arguments": {"what": what}}
    assert cause("4", reward, server) is expected
