"""The fraction of a row's tests that a model's program passes."""

import base64
import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rewards.rewards import CodeTestsReward, RowChecker
from services.contracts.sandbox.cases import (
    MAX_CASES,
    Case,
    CaseResult,
    CaseStatus,
    Match,
    RunCasesResponse,
)
from services.contracts.sandbox.programs import Language, RunStatus
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed
from services.rewards.answers.programs import last_program, needed_names
from services.rewards.code_runner import PRELUDE, runner_of
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.sandbox import ask_sandbox, starved

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
        function, setup = function_name(sample.item), self._setup(sample)
        tests = read_tests(sample.item[field], language, function, setup)
        code = last_program(sample.answers, language, defines=tests.is_wrapped, names=tests.names)
        if code is None:
            return Score(0.0)
        checker = None
        if self._settings.checker is not None:
            checker = row_checker(self._settings.checker, sample.item, tests)
        results = await self._run(code, tests, checker)
        if self._settings.partial:
            return Score(math.fsum(map(_share, results)) / len(tests.cases))
        return Score(float(all(case.status is CaseStatus.PASSED for case in results)))

    def _setup(self, sample: Sample) -> str | None:
        field = self._settings.setup_field
        setup = sample.item.get(field) if field is not None else None
        if field is not None and not isinstance(setup, str):
            raise RewardFailed(f"its row has no text in {field}")
        return setup

    async def probe(self) -> None:
        """Run a program with the limits and the language of every sample; raises `RewardFailed`
        if the sandbox refuses them, or fails."""
        tests, checker = ProgramTests([Case()], Match.LINES), self._settings.checker
        judging = None if checker is None else row_checker(checker, {checker.field: "0"}, tests)
        await self._answer("", tests, judging)

    async def _run(
        self, code: str, tests: "ProgramTests", checker: JsonObject | None
    ) -> list[CaseResult]:
        answer = await self._answer(code, tests, checker)
        results = [answer.compile_result, *(case.run_result for case in answer.cases)]
        judged = [case for case in answer.cases if case.status is CaseStatus.CHECKER_FAILED]
        results += [case.checker_result for case in judged]
        if any(result is not None and result.is_starved for result in results):
            raise starved()
        if judged:
            told = judged[0].message or "no reason was given"
            raise RewardFailed(told, cause=InfrastructureCause.SERVICE_ERROR)
        return answer.cases

    async def _answer(
        self, code: str, tests: "ProgramTests", checker: JsonObject | None
    ) -> RunCasesResponse:
        longest = LONGEST_SECONDS / len(tests.cases) / (1 if checker is None else 2)
        if checker is not None:
            seconds = min(checker["run_timeout"], longest)
            memory = self._settings.memory_limit_mb
            checker = {**checker, "run_timeout": seconds, "memory_limit_MB": memory}
        body = {
            "code": tests.code(code),
            "language": self._settings.language,
            "compile_timeout": COMPILE_SECONDS,
            "run_timeout": min(self._settings.run_timeout, longest),
            "memory_limit_MB": self._settings.memory_limit_mb,
            "cases": [case.model_dump() for case in tests.cases],
            "match": tests.match,
            "tolerance": self._settings.tolerance,
            "checker": checker,
            "stop_on_first_failure": not self._settings.partial,
        }
        try:
            answer = await ask_sandbox(self._sandbox, body, RunCasesResponse)
        except ServiceFailed as error:
            raise RewardFailed(error.message) from error
        failed = [case for case in answer.cases if case.status is CaseStatus.SANDBOX_ERROR]
        if failed or answer.status is RunStatus.SANDBOX_ERROR:
            told = f"the sandbox failed: {answer.message or 'no reason was given'}"
            raise RewardFailed(told, cause=_cause(answer))
        return answer


def _cause(failed: RunCasesResponse) -> InfrastructureCause:
    """Why the sandbox failed: if nothing was begun, the language is not installed."""
    begun = failed.compile_result or any(case.run_result for case in failed.cases)
    return InfrastructureCause.SERVICE_ERROR if begun else InfrastructureCause.MISCONFIGURED


def row_checker(settings: RowChecker, item: JsonObject, tests: "ProgramTests") -> JsonObject | None:
    """The sandbox's request for a row's checker; None where the row has none.

    Raises `RewardFailed` where the row lacks the field.
    """
    if settings.field not in item:
        raise RewardFailed(f"its row has no field {settings.field} for a checker")
    code = item[settings.field]
    if code is None or code == "":
        return None
    if not isinstance(code, str):
        raise RewardFailed(f"its checker ({settings.field}) is not a text")
    if tests.is_wrapped:
        raise RewardFailed("a checker judges what programs print, not code or calls of functions")
    return {
        "code": code,
        "language": settings.language,
        "arguments": settings.arguments,
        "verdict": settings.verdict,
        "compile_timeout": COMPILE_SECONDS,
        "run_timeout": settings.timeout,
        "files": {
            name: base64.b64encode(text.encode()).decode() for name, text in settings.files.items()
        },
    }


def _share(case: CaseResult) -> float:
    passed = float(case.status is CaseStatus.PASSED)
    return passed if case.score is None else case.score


@dataclass(frozen=True)
class ProgramTests:
    """Cases for the sandbox; ``is_wrapped``: the program is run by `code_runner`, and tells what
    the case expects. ``names`` are those that it must define, as far as the tests say them."""

    cases: list[Case]
    match: Match
    is_wrapped: bool = False
    names: frozenset[str] = frozenset()

    def code(self, program: str) -> str:
        """The code to run with each case."""
        return runner_of(program) if self.is_wrapped else program


def read_tests(
    value: Any, language: Language, function: str | None = None, setup: str | None = None
) -> ProgramTests:
    """The tests in a field of a row; raises `RewardFailed` if there are none.

    ``setup`` is Python that runs before the program, where tests are code or call a function.

    Functional tests, those of APPS with ``fn_name`` and LiveCodeBench's of testtype ``functional``,
    call a function of the program: ``fn_name``, or ``function``.
    """
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, dict) and "inputs" in value and "outputs" in value:
        pairs = _paired(value["inputs"], value["outputs"])
        if value.get("fn_name") is not None:
            return _functional(_apps_calls(value["fn_name"], pairs), language, setup)
        value = pairs
    if isinstance(value, list) and any(map(_is_functional, value)):
        return _functional(_livecodebench_calls(function, value), language, setup)
    if not isinstance(value, list) or not value:
        raise RewardFailed("its tests are not a list of cases")
    _check_number(value)
    if all(isinstance(test, str) for test in value):
        return _pieces_of_code(value, language, setup)
    cases = [_case(test, position) for position, test in enumerate(value)]
    return ProgramTests(cases, Match.NUMBERS)


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


@dataclass(frozen=True)
class _Call:
    """A call of a function of the program, and the values that it may return."""

    name: str
    arguments: list[Any]
    accepted: list[Any]


def _call(name: Any, arguments: Any, accepted: list[Any], position: int) -> _Call:
    if not isinstance(name, str) or not name.isidentifier():
        raise RewardFailed(f"its tests call {str(name)[:80]!r}, which is not a function's name")
    if not isinstance(arguments, list):
        raise RewardFailed(f"its test {position} has no list of arguments")
    return _Call(name, arguments, accepted)


def _functional(calls: list[_Call], language: Language, setup: str | None) -> ProgramTests:
    """What a call returns is compared as JSON outside of the program's process, where it cannot
    find what is expected."""
    _check_python(language)
    _check_number(calls)
    before = [PRELUDE, *([setup] if setup else [])]
    cases = [
        Case(
            stdin=json.dumps(
                {"before": before, "call": {"name": each.name, "arguments": each.arguments}}
            ),
            expected_output=json.dumps(each.accepted[0]),
            alternatives=[json.dumps(value) for value in each.accepted[1:]],
        )
        for each in calls
    ]
    names = frozenset(each.name for each in calls)
    return ProgramTests(cases, Match.JSON, is_wrapped=True, names=names)


def _apps_calls(name: Any, pairs: list[Any]) -> list[_Call]:
    """APPS lists the arguments of each call, and may wrap the return value in a list."""
    calls = []
    for position, pair in enumerate(pairs):
        output = pair["output"]
        unwrapped = output[:1] if isinstance(output, list) else []
        calls.append(_call(name, pair["input"], [output, *unwrapped], position))
    return calls


def _is_functional(test: Any) -> bool:
    return isinstance(test, dict) and test.get("testtype") == "functional"


def _livecodebench_calls(name: str | None, tests: list[Any]) -> list[_Call]:
    """LiveCodeBench writes each argument on a line of the input, as JSON."""
    if name is None:
        raise RewardFailed("its tests are functional, but its metadata has no func_name")
    calls = []
    for position, test in enumerate(tests):
        given, wanted = test.get("input"), test.get("output")
        if not _is_functional(test) or not isinstance(given, str) or not isinstance(wanted, str):
            raise RewardFailed(f"its test {position} is not functional like the others")
        arguments = [_decoded(line) for line in given.split("\n") if line.strip()]
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
    given = _text(test.get("stdin", test.get("input")))
    wanted = _text(test.get("expected_output", test.get("output")))
    if not isinstance(given, str | None) or not isinstance(wanted, str):
        raise RewardFailed(f"its test {position} has no text as input, or none as output")
    return Case(stdin=given, expected_output=wanted)


def _text(value: Any) -> Any:
    """APPS also writes inputs and outputs as lists of lines."""
    is_lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "\n".join(value) if is_lines else value


def _pieces_of_code(pieces: list[str], language: Language, setup: str | None) -> ProgramTests:
    """Each is run behind the program, and then a token is told.

    A program that exits early never tells it. A program that inspects its own process can find the
    token: tests that must resist that compare outputs or values.
    """
    _check_python(language)
    token = secrets.token_hex(16)
    before = [setup] if setup else []
    cases = [
        Case(
            stdin=json.dumps({"before": before, "test": piece, "token": token}),
            expected_output=token,
        )
        for piece in pieces
    ]
    names = needed_names(pieces, setup)
    return ProgramTests(cases, Match.EXACT, is_wrapped=True, names=names)


def _check_python(language: Language) -> None:
    if language is not Language.PYTHON:
        raise RewardFailed(f"tests that are code are for Python, not for {language.value}")


def _check_number(tests: Sequence[Any]) -> None:
    if len(tests) > MAX_CASES:
        raise RewardFailed(f"it has {len(tests)} tests; {MAX_CASES} are allowed")
