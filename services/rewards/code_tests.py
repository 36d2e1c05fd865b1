"""The fraction of a row's tests that a model's program passes."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.rewards import CodeTestsReward
from services.contracts.sandbox import Language, RunStatus
from services.contracts.sandbox_cases import (
    MAX_CASES,
    Case,
    CaseResult,
    CaseStatus,
    RunCasesResponse,
)
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.sandbox import ask_sandbox

ROUTE = "/v1/run_cases"
COMPILE_SECONDS = 10.0
LONGEST_SECONDS = 900.0
"""For all cases of a program together."""


class CodeTests:
    """Runs the last code block with every test, in one request to the sandbox."""

    def __init__(self, settings: CodeTestsReward, sandbox: JsonService) -> None:
        self._settings = settings
        self._sandbox = sandbox

    async def score(self, sample: Sample) -> Score:
        """Score the program; a response without one scores 0."""
        field, language = self._settings.field, self._settings.language
        if sample.item.get(field) is None:
            raise RewardFailed(f"its row has no tests ({field})")
        tests = read_tests(sample.item[field], language, function_name(sample.item))
        code = last_block(sample.texts)
        if code is None:
            return Score(0.0)
        passed = sum(_has_passed(case, tests) for case in await self._run(code, tests))
        if self._settings.partial:
            return Score(passed / len(tests.cases))
        return Score(float(passed == len(tests.cases)))

    async def _run(self, code: str, tests: "ProgramTests") -> list[CaseResult]:
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


def _has_passed(case: CaseResult, tests: "ProgramTests") -> bool:
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
class ProgramTests:
    """Cases for the sandbox. ``token`` is printed last by a program that completed its case; null
    where its output is compared."""

    cases: list[Case]
    token: str | None = None

    def code(self, program: str) -> str:
        """The code to run with each case."""
        return program if self.token is None else _RUNNER.format(program=repr(program))


def read_tests(value: Any, language: Language, function: str | None = None) -> ProgramTests:
    """The tests in a field of a row; raises `RewardFailed` if there are none.

    Functional tests, those of APPS with ``fn_name`` and LiveCodeBench's of testtype ``functional``,
    call a function of the program: ``fn_name``, or ``function``.
    """
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, dict) and "inputs" in value and "outputs" in value:
        pairs = _paired(value["inputs"], value["outputs"])
        if value.get("fn_name") is not None:
            return _pieces_of_code(_apps_calls(value["fn_name"], pairs), language)
        value = pairs
    if isinstance(value, list) and any(map(_is_functional, value)):
        value = _livecodebench_calls(function, value)
    if not isinstance(value, list) or not value:
        raise RewardFailed("its tests are not a list of cases")
    if len(value) > MAX_CASES:
        raise RewardFailed(f"it has {len(value)} tests; {MAX_CASES} are allowed")
    if all(isinstance(test, str) for test in value):
        return _pieces_of_code(value, language)
    return ProgramTests([_case(test, position) for position, test in enumerate(value)])


def function_name(item: JsonObject) -> str | None:
    """The function that LiveCodeBench's functional tests of a row call, from its metadata."""
    metadata = item.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            return None
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else None


# What a program returns is compared as JSON: a tuple equals the list of its items.
_CALL = """
def _plain(value):
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {{key: _plain(item) for key, item in value.items()}}
    return value

_call, _accepted = __import__("json").loads({test})
_owner = globals().get("Solution")
_function = getattr(_owner(), {name}) if hasattr(_owner, {name}) else globals()[{name}]
assert _plain(_function(*_call)) in _accepted
"""


def _call(name: Any, arguments: Any, accepted: list[Any], position: int) -> str:
    """Code that calls a function of the program and fails unless it returns an accepted value."""
    if not isinstance(name, str) or not name.isidentifier():
        raise RewardFailed(f"its tests call {str(name)[:80]!r}, which is not a function's name")
    if not isinstance(arguments, list):
        raise RewardFailed(f"its test {position} has no list of arguments")
    return _CALL.format(test=repr(json.dumps([arguments, accepted])), name=repr(name))


def _apps_calls(name: Any, pairs: list[Any]) -> list[str]:
    """APPS lists the arguments of each call, and may wrap the return value in a list."""
    calls = []
    for position, pair in enumerate(pairs):
        output = pair["output"]
        unwrapped = output[:1] if isinstance(output, list) else []
        calls.append(_call(name, pair["input"], [output, *unwrapped], position))
    return calls


def _is_functional(test: Any) -> bool:
    return isinstance(test, dict) and test.get("testtype") == "functional"


def _livecodebench_calls(name: str | None, tests: list[Any]) -> list[str]:
    """LiveCodeBench writes each argument on a line of the input, as JSON."""
    if name is None:
        raise RewardFailed("its tests are functional, but its metadata has no func_name")
    calls = []
    for position, test in enumerate(tests):
        given, wanted = test.get("input"), test.get("output")
        if not _is_functional(test) or not isinstance(given, str) or not isinstance(wanted, str):
            raise RewardFailed(f"its test {position} is not functional like the others")
        arguments = [_decoded(line) for line in given.splitlines() if line.strip()]
        calls.append(_call(name, arguments, [_decoded(wanted)], position))
    return calls


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RewardFailed("its tests are a text that is not JSON") from None


def _paired(inputs: Any, outputs: Any) -> list[Any]:
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise RewardFailed("inputs and outputs of its tests are not lists of the same length")
    return [
        {"input": given, "output": wanted} for given, wanted in zip(inputs, outputs, strict=True)
    ]


def _case(test: Any, position: int) -> Case:
    if not isinstance(test, dict):
        raise RewardFailed(f"its test {position} is not an object")
    given = test.get("stdin", test.get("input"))
    wanted = test.get("expected_output", test.get("output"))
    if not isinstance(given, str | None) or not isinstance(wanted, str):
        raise RewardFailed(f"its test {position} has no text as input, or none as output")
    return Case(stdin=given, expected_output=wanted)


def _pieces_of_code(pieces: list[str], language: Language) -> ProgramTests:
    """Each is run behind the program, from standard input, and then prints a token.

    A program that exits early, or reads the input itself, never prints it. A program that inspects
    its own process can find the token: tests that must resist that compare outputs.
    """
    if language is not Language.PYTHON:
        raise RewardFailed(f"tests that are code are for Python, not for {language.value}")
    token = secrets.token_hex(16)
    cases = [Case(stdin=f"{piece}\nprint({token!r})") for piece in pieces]
    return ProgramTests(cases, token)


_FENCE = "```"


def last_block(texts: Sequence[str]) -> str | None:
    """The last closed block fenced by three backticks; null without one."""
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
