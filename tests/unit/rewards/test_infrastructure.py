"""Rewards that the infrastructure fails leave a sample out, and others leave it without reward."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.contracts.failures import InfrastructureCause as Cause
from services.core.operator_environment import OperatorEnvironment
from tests.support.rewards import rewarded, trajectory
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
