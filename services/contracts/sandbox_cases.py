"""Running one code against many inputs: POST /v1/run_cases."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictBool

from services.contracts.base import Resource
from services.contracts.sandbox import CodeRequest, CommandResult, RunStatus

MAX_CASES = 1000


class Match(StrEnum):
    """When an output is the expected one."""

    LINES = "lines"  # but for white space at the ends of lines, and empty lines at the end
    EXACT = "exact"  # to the last byte


class Case(BaseModel):
    """One input, and what the program is expected to print for it."""

    model_config = ConfigDict(extra="ignore")

    stdin: str | None = None
    expected_output: str | None = Field(
        default=None, description="Null: the case passes when the program ends with 0."
    )


class RunCasesRequest(CodeRequest):
    """One code to compile once and run with every input; ``run_timeout`` is that of each run."""

    cases: Annotated[list[Case], FailFast(), Field(min_length=1, max_length=MAX_CASES)]
    match: Match = Match.LINES
    stop_on_first_failure: StrictBool = Field(
        default=False, description="Cases after the first that does not pass are not run."
    )


class CaseStatus(StrEnum):
    """What came of a case."""

    PASSED = "Passed"
    WRONG_OUTPUT = "WrongOutput"  # it ended with 0, and printed something else
    FAILED = "Failed"  # it ended otherwise, or was not done in time
    SANDBOX_ERROR = "SandboxError"  # the sandbox is to blame
    NOT_RUN = "NotRun"  # an earlier case did not pass, or the compilation failed


class CaseResult(Resource):
    """What came of one case.

    Its outputs were matched whole, and are cut here to an equal share of what an answer holds.
    """

    status: CaseStatus
    run_result: CommandResult | None = None
    matched: bool | None = Field(
        default=None, description="Null when nothing was expected, or the program did not end."
    )


class RunCasesResponse(Resource):
    """What came of all cases, in the order of the request."""

    status: RunStatus = Field(description="Success when every case passed.")
    message: str = ""
    compile_result: CommandResult | None = None
    passed: int = Field(description="How many cases passed.")
    cases: list[CaseResult]
