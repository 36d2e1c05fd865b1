"""The share of tests that a model's program passes."""

from services.contracts.rewards import CodeTestsReward
from services.contracts.sandbox import RunStatus
from services.contracts.sandbox_cases import CaseResult, CaseStatus, RunCasesResponse
from services.inference.clients.json_service import JsonService, ServiceFailed
from services.rewards.code.blocks import last_block
from services.rewards.code.tests import Tests, read_tests
from services.rewards.component import RewardFailed, Score
from services.rewards.sample import Sample
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

    async def _run(self, code: str, tests: Tests) -> list[CaseResult]:
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


def _has_passed(case: CaseResult, tests: Tests) -> bool:
    if case.status is not CaseStatus.PASSED:
        return False
    if tests.token is None:
        return True
    output = (case.run_result.stdout if case.run_result else None) or ""
    return output.rstrip("\n").rpartition("\n")[2] == tests.token
