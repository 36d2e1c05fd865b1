"""OpenAI's python grader: its source runs in the sandbox."""

import ast
import json
import secrets

from services.contracts.errors import InvalidRequest
from services.contracts.failures import InfrastructureCause
from services.contracts.rewards.openai_graders import PythonGrader
from services.contracts.sandbox.programs import CommandStatus, Language, RunCodeResponse, RunStatus
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed
from services.rewards.functions import read_score
from services.rewards.interface import RewardFailed, RewardFailureKind, Sample, Score
from services.rewards.sandbox import ask_sandbox, starved

ROUTE = "/run_code"
SECONDS = 120.0
MEMORY_MB = 2048
LONGEST_CHECKED = 50_000
"""Maximum characters; parsing this many takes a tenth of a second."""
_FUNCTION = "grade"

_RUNNER = """

def _main():
    import json, sys
    given = json.load(sys.stdin)
    score = grade(given["sample"], given["item"])
    print()
    print(given["token"] + json.dumps(float(score)))

_main()
"""


class PythonProgram:
    """The return value of grade(sample, item)."""

    def __init__(self, settings: PythonGrader, sandbox: JsonService) -> None:
        self._settings = settings
        self._sandbox = sandbox

    async def score(self, sample: Sample) -> Score:
        """Run the function."""
        token = secrets.token_hex(16)
        given = {"sample": sample.namespace, "item": sample.item, "token": token}
        answer = await self._answer(self._settings.source + _RUNNER, json.dumps(given))
        if answer.run_result is not None and answer.run_result.is_starved:
            raise starved(RewardFailureKind.PYTHON_SERVER)
        return Score(_read(answer, token))

    async def probe(self) -> None:
        """Run a program with the limits of every sample; raises `RewardFailed` if the sandbox
        refuses them, or fails."""
        await self._answer("", "")

    async def _answer(self, code: str, stdin: str) -> RunCodeResponse:
        body = {
            "code": code,
            "language": Language.PYTHON,
            "run_timeout": SECONDS,
            "memory_limit_MB": MEMORY_MB,
            "stdin": stdin,
        }
        try:
            answer = await ask_sandbox(self._sandbox, body, RunCodeResponse)
        except ServiceFailed as error:
            raise RewardFailed(error.message, RewardFailureKind.PYTHON_SERVER) from error
        if answer.status is RunStatus.SANDBOX_ERROR:
            message = answer.message or "the sandbox failed"
            raise RewardFailed(
                message, RewardFailureKind.PYTHON_SERVER, InfrastructureCause.SERVICE_ERROR
            )
        return answer


def check_source(source: str, param: str) -> None:
    """Raise `InvalidRequest` for source that is not Python or lacks the function.

    Very long source is left for the sandbox to reject.
    """
    if len(source) > LONGEST_CHECKED:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        told = str(error)[:200] or "it is nested too deeply"
        raise InvalidRequest(f"is not Python: {told}", param=param) from None
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if _FUNCTION not in names:
        raise InvalidRequest("must define grade(sample, item)", param=param)


def _read(answer: RunCodeResponse, token: str) -> float:
    result = answer.run_result
    if result is None or result.status is CommandStatus.TIME_LIMIT_EXCEEDED:
        raise RewardFailed(f"it did not end within {SECONDS:g} s", RewardFailureKind.PYTHON_RUNTIME)
    _, found, score = (result.stdout or "").rpartition(token)
    if answer.status is not RunStatus.SUCCESS or not found:
        told = (result.stderr or "").strip()[-1000:] or "it ended early"
        raise RewardFailed(told, RewardFailureKind.PYTHON_RUNTIME)
    try:
        return read_score(json.loads(score), _FUNCTION)
    except (ValueError, RewardFailed) as error:
        raise RewardFailed(
            f"grade gave {score.strip()[:100]}", RewardFailureKind.PYTHON_RUNTIME
        ) from error
