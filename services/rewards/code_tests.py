"""The share of a row's tests that a model's program passes."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.contracts.rewards import CodeTestsReward
from services.contracts.sandbox import Language, RunStatus
from services.contracts.sandbox_cases import (
    MAX_CASES,
    Case,
    CaseResult,
    CaseStatus,
    RunCasesResponse,
)
from services.inference.clients.json_service import JsonService, ServiceFailed
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.sandbox import ask_sandbox

ROUTE = "/v1/run_cases"
COMPILE_SECONDS = 10.0
LONGEST_SECONDS = 900.0
"""Of all cases of a program."""


class CodeTests:
    """Runs the last block of code with every test, in one request to the sandbox."""

    def __init__(self, settings: CodeTestsReward, sandbox: JsonService) -> None:
        self._settings = settings
        self._sandbox = sandbox

    async def score(self, sample: Sample) -> Score:
        """Judge the program; text without one passes nothing."""
        field, language = self._settings.field, self._settings.language
        if sample.item.get(field) is None:
            raise RewardFailed(f"its row has no tests ({field})")
        tests = read_tests(sample.item[field], language)
        code = last_block(sample.texts)
        if code is None:
            return Score(0.0)
        passed = sum(_has_passed(case, tests) for case in await self._run(code, tests))
        if self._settings.partial:
            return Score(passed / len(tests.cases))
        return Score(float(passed == len(tests.cases)))

    async def _run(self, code: str, tests: "Tests") -> list[CaseResult]:
        body = {
            "code": tests.code(code),
            "language": self._settings.language,
            "compile_timeout": COMPILE_SECONDS,
            "run_timeout": min(self._settings.run_timeout, LONGEST_SECONDS / len(tests.cases)),
            "memory_limit_MB": self._settings.memory_limit_mb,
            "cases": [case.model_dump() for case in tests.cases],
            "stop_on_first_failure": not self._settings.partial,
        }
        try:
            answer = await ask_sandbox(self._sandbox, body, RunCasesResponse)
        except ServiceFailed as error:
            raise RewardFailed(error.message) from error
        failed = [case for case in answer.cases if case.status is CaseStatus.SANDBOX_ERROR]
        if failed or answer.status is RunStatus.SANDBOX_ERROR:
            raise RewardFailed(f"the sandbox failed: {answer.message or 'no reason was given'}")
        return answer.cases


def _has_passed(case: CaseResult, tests: "Tests") -> bool:
    if case.status is not CaseStatus.PASSED:
        return False
    if tests.token is None:
        return True
    output = (case.run_result.stdout if case.run_result else None) or ""
    return output.rstrip("\n").rpartition("\n")[2] == tests.token


# The test is read before the program begins, which finds standard input empty. Programs are run by
# the interpreter of the sandbox alone.
_RUNNER = """
def _main():
    import sys
    test = compile(sys.stdin.read(), "test", "exec")
    names = {{"__name__": "__main__"}}
    exec(compile({program}, "program", "exec"), names)
    exec(test, names)

_main()
"""


@dataclass(frozen=True)
class Tests:
    """Cases for the sandbox.

    ``token`` is what is printed last when a program went through its case to the end; null where
    its output is compared.
    """

    cases: list[Case]
    token: str | None = None

    def code(self, program: str) -> str:
        """What is run with each case."""
        return program if self.token is None else _RUNNER.format(program=repr(program))


def read_tests(value: Any, language: Language) -> Tests:
    """The tests that a field of a row holds; raises `RewardFailed` for what holds none."""
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, dict) and "inputs" in value and "outputs" in value:
        value = _paired(value["inputs"], value["outputs"])
    if not isinstance(value, list) or not value:
        raise RewardFailed("its tests are no list of cases")
    if len(value) > MAX_CASES:
        raise RewardFailed(f"it has {len(value)} tests; {MAX_CASES} are allowed")
    if all(isinstance(test, str) for test in value):
        return _pieces_of_code(value, language)
    return Tests([_case(test, position) for position, test in enumerate(value)])


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RewardFailed("its tests are a text that is not JSON") from None


def _paired(inputs: Any, outputs: Any) -> list[Any]:
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise RewardFailed("inputs and outputs of its tests are no lists of the same length")
    return [
        {"input": given, "output": wanted} for given, wanted in zip(inputs, outputs, strict=True)
    ]


def _case(test: Any, position: int) -> Case:
    if not isinstance(test, dict):
        raise RewardFailed(f"its test {position} is no object")
    given = test.get("stdin", test.get("input"))
    wanted = test.get("expected_output", test.get("output"))
    if not isinstance(given, str | None) or not isinstance(wanted, str):
        raise RewardFailed(f"its test {position} has no text as input, or none as output")
    return Case(stdin=given, expected_output=wanted)


def _pieces_of_code(pieces: list[str], language: Language) -> Tests:
    """Each is run behind the program, from standard input, and then prints a token.

    A program that ends early, or reads the input itself, does not come to that. One that looks
    through its own process for its judge can find it: what must withstand that compares outputs.
    """
    if language is not Language.PYTHON:
        raise RewardFailed(f"tests that are code are for Python, not for {language.value}")
    token = secrets.token_hex(16)
    cases = [Case(stdin=f"{piece}\nprint({token!r})") for piece in pieces]
    return Tests(cases, token)


_FENCE = "```"


def last_block(texts: Sequence[str]) -> str | None:
    """The last closed block between fences of three backticks; null without one."""
    for text in reversed(texts):
        block = _last_block(text)
        if block is not None:
            return block
    return None


def _last_block(text: str) -> str | None:
    block: str | None = None
    lines: list[str] | None = None
    for line in text.split("\n"):
        is_fence = line.strip().startswith(_FENCE)
        if lines is None:
            lines = [] if is_fence else None
        elif is_fence and not line.strip().strip("`"):
            block, lines = "\n".join(lines), None
        else:
            lines.append(line)
    return block
