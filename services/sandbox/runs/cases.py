"""One program, compiled once, run against many inputs."""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from services.contracts.sandbox.cases import (
    Case,
    CaseResult,
    CaseStatus,
    CheckerVerdict,
    RunCasesRequest,
    RunCasesResponse,
)
from services.contracts.sandbox.programs import CommandResult, RunStatus
from services.sandbox.execution import ExitReason, Outcome, SandboxFailure
from services.sandbox.languages.build import Build
from services.sandbox.runs.checkers import checker_input, judgment, with_files
from services.sandbox.runs.comparison import matches
from services.sandbox.runs.service import Compiled, Runs
from services.sandbox.wire import (
    Program,
    check_program,
    command_result,
    failed_result,
    in_thread_if_large,
)

STREAMS_ANSWERED = 4
"""A response holds at most this many full output streams; the cases share them equally."""
MIN_SHARE_BYTES = 1024


@dataclass(frozen=True)
class CasesRun:
    """A checked request with many inputs; ``checker`` is the program that judges outputs."""

    request: RunCasesRequest
    program: Program
    checker: Program | None = None


@dataclass(frozen=True)
class _BuiltChecker:
    program: Program
    build: Build
    verdict: CheckerVerdict


def check_cases(runs: Runs, request: RunCasesRequest) -> CasesRun:
    """Validate a request; raises `Unprocessable`."""
    program, checker = check_program(request, runs.settings), None
    if request.checker is not None:
        checker = check_program(with_files(request.checker), runs.settings)
    return CasesRun(request, program, checker)


async def run_cases(runs: Runs, cases: CasesRun) -> RunCasesResponse:
    """Compile in one slot, then run each case in its own slot; raises `QueueFull`."""
    compiled = await _compiled(runs, cases.program)
    if compiled.build is None:
        results = [CaseResult(status=CaseStatus.NOT_RUN) for _ in cases.request.cases]
        return _response(compiled, results)
    checker = None
    if cases.checker is not None and cases.request.checker is not None:
        judging = await _compiled(runs, cases.checker)
        if judging.build is None:
            return _response(compiled, [_without_checker(judging) for _ in cases.request.cases])
        verdict = cases.request.checker.verdict
        checker = _BuiltChecker(cases.checker, judging.build, verdict)
    results = await _CaseRunner(runs, cases, compiled.build, checker).run()
    return _response(compiled, results)


async def _compiled(runs: Runs, program: Program) -> Compiled:
    async with runs.permit(program, program.queue_timeout):
        return await runs.compile(program)


def _without_checker(checker: Compiled) -> CaseResult:
    if checker.status is RunStatus.SANDBOX_ERROR:
        failed = failed_result(checker.message)
        return CaseResult(status=CaseStatus.SANDBOX_ERROR, run_result=failed)
    return CaseResult(
        status=CaseStatus.CHECKER_FAILED,
        checker_result=checker.result,
        message="the checker does not compile",
    )


def _response(compiled: Compiled, results: list[CaseResult]) -> RunCasesResponse:
    status, message = compiled.status, compiled.message
    if any(result.status is not CaseStatus.PASSED for result in results):
        status = max(status, RunStatus.FAILED, key=list(RunStatus).index)
    for result in results:
        if result.status is CaseStatus.SANDBOX_ERROR and result.run_result is not None:
            status, message = RunStatus.SANDBOX_ERROR, result.run_result.stderr or ""
            break
    else:
        message = message or next((result.message for result in results if result.message), "")
    return RunCasesResponse(
        status=status,
        message=message,
        compile_result=compiled.result,
        passed=sum(result.status is CaseStatus.PASSED for result in results),
        cases=results,
    )


class _CaseRunner:
    """Runs the cases of one request concurrently.

    With ``stop_on_first_failure`` the result is as if they had run in sequence: cases after the
    first failure count as not run.
    """

    def __init__(
        self, runs: Runs, cases: CasesRun, build: Build, checker: _BuiltChecker | None
    ) -> None:
        self._runs = runs
        self._build = build
        self._checker = checker
        self._program = cases.program
        self._request = cases.request
        count = len(cases.request.cases)
        self._results = [CaseResult(status=CaseStatus.NOT_RUN)] * count
        self._share = _share(runs.settings.sandbox_output_bytes, count)
        self._concurrent = asyncio.Semaphore(runs.admission.busy_slots)
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> list[CaseResult]:
        """Run all cases; raises `QueueFull`."""
        try:
            async with asyncio.TaskGroup() as group:
                for index, case in enumerate(self._request.cases):
                    self._tasks.append(group.create_task(self._run_in_slot(index, case)))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return self._results

    async def _run_in_slot(self, index: int, case: Case) -> None:
        async with self._concurrent:
            result = await self._run(case)
        self._results[index] = result
        if self._request.stop_on_first_failure and result.status is not CaseStatus.PASSED:
            for later in range(index + 1, len(self._tasks)):
                self._tasks[later].cancel()
                self._results[later] = CaseResult(status=CaseStatus.NOT_RUN)

    async def _run(self, case: Case) -> CaseResult:
        stdin = (case.stdin or "").encode()
        try:
            program = _keeping(self._program, case)
            outcome = await self._outcome(program, self._build, stdin)
            result = command_result(_cut(outcome, self._share))
            if self._checker is not None and outcome.return_code == 0 and not outcome.stdout_cut:
                answer = (case.expected_output or "").encode()
                given = checker_input(stdin, outcome.stdout, answer)
                return await self._checked(result, self._checker, given)
        except SandboxFailure as failure:
            result = failed_result(failure.message)
            return CaseResult(status=CaseStatus.SANDBOX_ERROR, run_result=result)
        if self._checker is not None:
            return _unchecked(outcome, result)
        compared = partial(self._matched, case, outcome)
        matched = await in_thread_if_large(compared, len(outcome.stdout))
        return CaseResult(status=_status(outcome, matched), run_result=result, matched=matched)

    async def _outcome(self, program: Program, build: Build, stdin: bytes) -> Outcome:
        async with self._runs.permit(program, self._runs.settings.sandbox_queue_seconds):
            return await self._runs.run(program, build, stdin)

    async def _checked(
        self, result: CommandResult, checker: _BuiltChecker, given: bytes
    ) -> CaseResult:
        """Have a checker judge what the program printed; raises `SandboxFailure`."""
        outcome = await self._outcome(checker.program, checker.build, given)
        judged = judgment(outcome, checker.verdict)
        status = CaseStatus.PASSED if judged.score == 1.0 else CaseStatus.WRONG_OUTPUT
        return CaseResult(
            status=CaseStatus.CHECKER_FAILED if judged.score is None else status,
            run_result=result,
            matched=None if judged.score is None else judged.score == 1.0,
            score=judged.score,
            checker_result=command_result(_cut(outcome, self._share)),
            message=judged.message,
        )

    def _matched(self, case: Case, outcome: Outcome) -> bool | None:
        if outcome.exit_reason is not ExitReason.EXITED:
            return None
        if case.expected_output is None:
            return None
        rule, tolerance = self._request.match, self._request.tolerance
        return not outcome.stdout_cut and any(
            matches(outcome.stdout, expected, rule, tolerance)
            for expected in (case.expected_output, *case.alternatives)
        )


def _keeping(program: Program, case: Case) -> Program:
    """The program, of whose output enough is kept to compare it with what the case expects."""
    accepted = (case.expected_output or "", *case.alternatives)
    longest = max(len(text.encode()) for text in accepted)
    limits = program.running
    running = replace(limits, output_bytes=limits.output_bytes + longest)
    return replace(program, running=running)


def _unchecked(outcome: Outcome, result: CommandResult) -> CaseResult:
    """The result of a case whose checker did not run: the program failed, or printed too much."""
    if outcome.return_code != 0:
        matched = False if outcome.exit_reason is ExitReason.EXITED else None
        return CaseResult(status=CaseStatus.FAILED, run_result=result, matched=matched)
    kept = f"{len(outcome.stdout):,} bytes"
    return CaseResult(
        status=CaseStatus.WRONG_OUTPUT,
        run_result=result,
        message=f"the checker did not run: the program printed more than the {kept} that are kept",
    )


def _status(outcome: Outcome, matched: bool | None) -> CaseStatus:
    if outcome.return_code != 0:
        return CaseStatus.FAILED
    return CaseStatus.WRONG_OUTPUT if matched is False else CaseStatus.PASSED


def _share(output_bytes: int, cases: int) -> int:
    return min(output_bytes, max(MIN_SHARE_BYTES, STREAMS_ANSWERED * output_bytes // cases))


def _cut(outcome: Outcome, share: int) -> Outcome:
    return replace(
        outcome,
        stdout=outcome.stdout[:share],
        stderr=outcome.stderr[:share],
        stdout_cut=outcome.stdout_cut or len(outcome.stdout) > share,
        stderr_cut=outcome.stderr_cut or len(outcome.stderr) > share,
    )
