"""Code rewards: which program is tested, with which tests, and what passes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from services.contracts.sandbox import Language
from services.core.operator_environment import OperatorEnvironment
from services.rewards.code_tests import ProgramTests, function_name, last_block, read_tests
from services.rewards.interface import RewardFailed
from tests.support.rewards import failure, score, trajectory
from tests.unit.inference.scripted_server import ScriptedServer, answer, running_server

CODE = {"type": "code_tests"}
CASES = [{"input": "1", "output": "2"}, {"stdin": "2", "expected_output": "3"}]
PROGRAM = "```python\nprint(int(input()) + 1)\n```"


@pytest.fixture
def sandbox() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


def at(sandbox: ScriptedServer, **fields: Any) -> OperatorEnvironment:
    return OperatorEnvironment(sandbox_url=sandbox.url.removesuffix("/v1"), **fields)


def ran(*statuses: str, **fields: Any) -> dict[str, Any]:
    cases = [{"status": status} for status in statuses]
    return {"status": "Failed", "passed": 0, "cases": cases, **fields}


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["```python\na\n```"], "a"),
        (["```\na\n\nb\n```\n"], "a\n\nb"),
        (["```py\na\n``` and\n```"], "a\n``` and"),  # a closing fence is on its own line
        (["```py\na\n```\ntext\n```c\nb\n  ```"], "b"),
        (["```py\na\n```\n```py\nb"], "a"),
        (["```py\na\n```", "done"], "a"),
        (["a", "```"], None),
        ([], None),
    ],
)
def test_the_last_closed_block_is_the_program(texts: list[str], code: str | None) -> None:
    assert last_block(texts) == code


@pytest.mark.parametrize(
    "value",
    [
        CASES,
        {"inputs": ["1", "2"], "outputs": ["2", "3"]},
        '{"inputs": ["1", "2"], "outputs": ["2", "3"]}',
    ],
)
def test_tests_are_read_in_published_formats(value: Any) -> None:
    tests = read_tests(value, Language.CPP)

    assert [(case.stdin, case.expected_output) for case in tests.cases] == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize(
    "value",
    [
        *("", "x", "[", 1, [], {}, [1], [CASES[0], "x"], [{"input": "1"}], [{"output": 1}]),
        *({"inputs": ["1"], "outputs": []}, {"inputs": 1, "outputs": 1}, [CASES[0]] * 1001),
        "[" * 100_000,
    ],
)
def test_a_value_without_tests_is_reported(value: Any) -> None:
    with pytest.raises(RewardFailed):
        read_tests(value, Language.PYTHON)


def test_assertion_tests_require_python() -> None:
    with pytest.raises(RewardFailed, match="Python"):
        read_tests(["assert f(1) == 2"], Language.CPP)


@pytest.mark.parametrize(("partial", "expected"), [(True, 0.5), (False, 0.0)])
def test_partial_credit_is_the_fraction_of_passed_tests(
    sandbox: ScriptedServer, partial: bool, expected: float
) -> None:
    sandbox.script = [answer(body=ran("Passed", "WrongOutput"))]
    sample = trajectory(PROGRAM, extra={"tests": CASES})
    reward = CODE | {"partial": partial, "run_timeout": 3, "memory_limit_mb": 99}

    assert score(sample, reward, at(sandbox, sandbox_api_key="sk-box")) == expected

    headers, body = sandbox.requests[0]
    assert headers["authorization"] == "Bearer sk-box"
    assert body["code"] == "print(int(input()) + 1)"
    assert (body["language"], body["run_timeout"], body["memory_limit_MB"]) == ("python", 3, 99)
    assert body["stop_on_first_failure"] is not partial


def test_text_without_a_program_passes_nothing(sandbox: ScriptedServer) -> None:
    assert score(trajectory("no", extra={"tests": CASES}), CODE, at(sandbox)) == 0.0
    assert sandbox.requests == []


def test_a_program_that_does_not_compile_passes_nothing(sandbox: ScriptedServer) -> None:
    sandbox.script = [answer(body=ran("NotRun", "NotRun"))]

    assert score(trajectory(PROGRAM, extra={"tests": CASES}), CODE, at(sandbox)) == 0.0


@pytest.mark.parametrize(
    "body",
    [
        ran("Passed", "SandboxError", message="no room"),
        ran("NotRun", "NotRun", status="SandboxError", message="no room"),
    ],
)
def test_a_sandbox_error_is_not_scored_as_a_wrong_program(
    sandbox: ScriptedServer, body: dict[str, Any]
) -> None:
    sandbox.script = [answer(body=body)]

    assert "no room" in failure(trajectory(PROGRAM, extra={"tests": CASES}), CODE, at(sandbox))


def test_a_malformed_sandbox_response_is_reported(sandbox: ScriptedServer) -> None:
    sandbox.script = [answer(body={"status": "fine"})]
    sample = trajectory(PROGRAM, extra={"tests": CASES})

    assert "cannot be read" in failure(sample, CODE, at(sandbox, attempts=1))


def test_a_row_without_tests_cannot_be_rewarded(sandbox: ScriptedServer) -> None:
    reason = failure(trajectory(PROGRAM), CODE | {"field": "cases"}, at(sandbox))

    assert "cases" in reason


APPS = {"fn_name": "add", "inputs": [[1, 2], [[3], [4]]], "outputs": [3, [[3, 4]]]}
LIVECODEBENCH = [
    {"input": "1\n2", "output": "3", "testtype": "functional"},
    {"input": "[3]\n[4]", "output": "[3, 4]", "testtype": "functional"},
]
METADATA = {"metadata": '{"func_name": "add"}'}
SOLUTION = "class Solution:\n    def add(self, a, b):\n        return a + b"


def passes(program: str, tests: ProgramTests) -> list[bool]:
    """Whether each case prints the token last, run as the sandbox would."""
    code, runs = tests.code(program), []
    for case in tests.cases:
        command = [sys.executable, "-I", "-c", code]
        ran = subprocess.run(command, input=case.stdin, capture_output=True, text=True, check=False)
        runs.append(ran.returncode == 0 and ran.stdout.strip() == tests.token)
    return runs


@pytest.mark.parametrize("tests", [APPS, json.dumps(LIVECODEBENCH)])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def add(a, b):\n    return a + b", [True, True]),
        (SOLUTION, [True, True]),
        ("def add(a, b):\n    return (*a, *b) if isinstance(a, list) else 3", [True, True]),
        ("def add(a, b):\n    return 3", [True, False]),
        ("def other(a, b):\n    return a + b", [False, False]),
        ("print(3)", [False, False]),
    ],
)
def test_functional_tests_call_the_programs_function(
    tests: Any, program: str, expected: list[bool]
) -> None:
    read = read_tests(tests, Language.PYTHON, function_name(METADATA))
    assert passes(program, read) == expected


@pytest.mark.parametrize(
    ("tests", "metadata"),
    [
        ({**APPS, "fn_name": "a b"}, {}),
        ({**APPS, "inputs": [1, 2]}, {}),
        (LIVECODEBENCH, {}),
        (LIVECODEBENCH, {"metadata": "{"}),
        ([LIVECODEBENCH[0], {"input": "1", "output": "1"}], METADATA),
        ([{**LIVECODEBENCH[0], "input": "{"}], METADATA),
    ],
)
def test_invalid_functional_tests_are_an_error_of_the_row(
    tests: Any, metadata: dict[str, Any]
) -> None:
    with pytest.raises(RewardFailed):
        read_tests(tests, Language.PYTHON, function_name(metadata))
