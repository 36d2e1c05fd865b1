"""Tools that run code: SandboxFusionTool and ReTool."""

from collections.abc import Callable, Collection
from functools import partial

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.tool_runs import KEPT_CODE_CHARACTERS, ProgramRun, kept_command
from services.contracts.rollouts.trajectories import CallOutcome
from services.contracts.sandbox.programs import (
    CommandResult,
    CommandStatus,
    Language,
    RunCodeResponse,
    RunStatus,
)
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.parsing.foreign_json import read_foreign
from services.rollouts.tools.base import (
    ToolError,
    ToolResult,
    bad_arguments,
    request_failure,
    service_error,
)
from services.rollouts.tools.configuration import SandboxConfig
from services.rollouts.tools.endpoints import ToolEndpoint

GRACE_SECONDS = 10.0
"""How much longer clients wait than the limits of compiling and running."""
NO_OUTPUT = "no stdout here"


def sandbox_service(target: ToolEndpoint, config: SandboxConfig) -> JsonService:
    """The connection to a sandbox. Programs can safely run twice, so transient failures are
    retried, but not timeouts."""
    limit = 2 * config.default_timeout + GRACE_SECONDS
    retries = Retries(
        attempts=3,
        deadline_seconds=2 * limit,
        statuses=frozenset({429, 502, 503, 504}),
        kinds=frozenset({FailureKind.BROKEN_OFF, FailureKind.UNREADABLE}),
    )
    return JsonService(
        target.url,
        target.api_key,
        timeout=limit,
        retries=retries,
        connections=config.max_in_flight,
        direct=target.own,
    )


class SandboxTool:
    """Runs the argument ``code`` after ``prepare``.

    ``declared`` are the arguments in its schema: if among them, the model chooses language and
    timeout, the latter up to the configured one.
    """

    idempotent = True

    def __init__(
        self,
        service: JsonService,
        config: SandboxConfig,
        declared: Collection[str],
        prepare: Callable[[str], str] | None = None,
    ) -> None:
        self._service = service
        self._config = config
        self._declared = declared
        self._prepare = prepare

    async def run(self, arguments: JsonObject) -> ToolResult:
        """The program's output; raises `ToolError`."""
        timeout = self._timeout(arguments)
        body = self._body(arguments, timeout)
        asked = _requested(body, arguments)
        try:
            answer = await self._service.post(body, partial(read_foreign, RunCodeResponse))
        except ServiceFailed as failed:
            ran = asked.model_copy(update={"failure": request_failure(failed)})
            raise service_error(failed, ran) from failed
        response = answer.value
        ran = _completed(asked, response)
        if response.status is RunStatus.SANDBOX_ERROR:
            raise self._sandbox_error(response, answer.attempts, ran)
        if any(each is not None and each.is_starved for each in _results(response)):
            text = "Error: the program got no processor time."
            cause = InfrastructureCause.NO_PROCESSOR_TIME
            raise ToolError(CallOutcome.TIMED_OUT, text, text[7:], answer.attempts, ran, cause)
        return ToolResult(self._reply(response, timeout), answer.attempts, ran)

    async def probe(self) -> None:
        """Run a program."""
        await self.run({"code": "print(1)"})

    def _sandbox_error(
        self, response: RunCodeResponse, attempts: int, ran: ProgramRun
    ) -> ToolError:
        """The sandbox failed; but if nothing was begun, its language is not installed, which the
        model may have chosen."""
        text = f"Error: the code could not be run: {response.message[:500]}"
        begun = response.compile_result is not None or response.run_result is not None
        if begun:
            cause = InfrastructureCause.SERVICE_ERROR
        elif "language" in self._declared:
            return ToolError(
                CallOutcome.INVALID_ARGUMENTS, text, response.message[:2000], attempts, ran
            )
        else:
            cause = InfrastructureCause.MISCONFIGURED
        message = response.message[:2000]
        return ToolError(CallOutcome.FAILED, text, message, attempts, ran, cause)

    def _body(self, arguments: JsonObject, timeout: float) -> JsonObject:
        code = arguments.get("code")
        if not isinstance(code, str):
            raise bad_arguments("the argument 'code' must be a string.")
        language = self._language(arguments)
        if self._prepare is not None and language == Language.PYTHON:
            code = self._prepare(code)
        return {
            "code": code,
            "language": language,
            "compile_timeout": timeout,
            "run_timeout": timeout,
            "memory_limit_MB": self._config.memory_limit_mb,
            "stdin": None,
            "files": {},
            "fetch_files": [],
        }

    def _language(self, arguments: JsonObject) -> str:
        chosen = arguments.get("language") if "language" in self._declared else None
        if chosen is None:
            return self._config.default_language
        if chosen not in list(Language):
            raise bad_arguments("the argument 'language' names an unknown language.")
        return str(chosen)

    def _timeout(self, arguments: JsonObject) -> float:
        chosen = arguments.get("timeout") if "timeout" in self._declared else None
        if chosen is None:
            return self._config.default_timeout
        if isinstance(chosen, bool) or not isinstance(chosen, int | float) or not chosen > 0:
            raise bad_arguments("the argument 'timeout' must be a number of seconds above 0.")
        return min(float(chosen), self._config.default_timeout)

    def _reply(self, response: RunCodeResponse, timeout: float) -> str:
        ran = response.run_result
        if ran is not None and ran.status is CommandStatus.FINISHED:
            printed = _printed(ran)
            return printed if self._config.upstream_replies else _with_line(printed, _end(ran))
        if self._config.upstream_replies:
            return NO_OUTPUT
        if ran is not None:
            return _with_line(_printed(ran), f"{ran.status} after {timeout:g} s")
        compiled = response.compile_result
        if compiled is None:
            return "Error: the code was not run."
        if compiled.status is CommandStatus.TIME_LIMIT_EXCEEDED:
            return _with_line(
                _printed(compiled), f"compiling: {compiled.status} after {timeout:g} s"
            )
        return _with_line(_printed(compiled), "the code could not be compiled")


def _requested(body: JsonObject, arguments: JsonObject) -> ProgramRun:
    is_changed = body["code"] != arguments["code"]
    return ProgramRun(
        language=body["language"],
        code=body["code"][:KEPT_CODE_CHARACTERS] if is_changed else None,
    )


def _completed(asked: ProgramRun, response: RunCodeResponse) -> ProgramRun:
    answer = {
        "status": response.status,
        "compile_result": kept_command(response.compile_result),
        "run_result": kept_command(response.run_result),
    }
    return asked.model_copy(update=answer)


def _results(response: RunCodeResponse) -> tuple[CommandResult | None, ...]:
    return response.compile_result, response.run_result


def _printed(result: CommandResult) -> str:
    return (result.stdout or "") + (result.stderr or "")


def _end(result: CommandResult) -> str | None:
    """How a program ended, if its output does not say."""
    code = result.return_code
    if result.out_of_memory:
        return "killed: out of memory"
    if code is None or code == 0:
        return None
    if code < 0:
        return f"killed by signal {-code}"
    return None if result.stderr else f"exit code {code}"


def _with_line(text: str, line: str | None) -> str:
    if line is None:
        return text
    return f"{text}\n{line}" if text and not text.endswith("\n") else text + line
