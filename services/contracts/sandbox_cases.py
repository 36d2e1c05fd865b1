"""POST /v1/run_cases: one program against many inputs."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictBool

from services.contracts.base import Number, Resource
from services.contracts.sandbox import CodeRequest, CommandResult, RunStatus

MAX_CASES = 1000


class Match(StrEnum):
    """How outputs are compared."""

    LINES = "lines"  # ignores whitespace at line ends and empty lines at the end
    EXACT = "exact"  # byte for byte
    NUMBERS = "numbers"  # as lines, where words that are numbers are compared by value
    JSON = "json"  # as JSON values, of which true is not 1


class Case(BaseModel):
    """One input with its expected output."""

    model_config = ConfigDict(extra="ignore")

    stdin: str | None = None
    expected_output: str | None = Field(
        default=None, description="Null: the case passes if the program exits with 0."
    )
    alternatives: list[str] = Field(
        default=[], max_length=100, description="Outputs that are right as well."
    )


class RunCasesRequest(CodeRequest):
    """A program to compile once and run with every input; ``run_timeout`` applies to each run."""

    cases: Annotated[list[Case], FailFast(), Field(min_length=1, max_length=MAX_CASES)]
    match: Match = Match.LINES
    tolerance: Number = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="With numbers and json: numbers may differ by this much, relative or absolute.",
    )
    stop_on_first_failure: StrictBool = Field(
        default=False, description="Do not run cases after the first failure."
    )


class CaseStatus(StrEnum):
    """Result of a case."""

    PASSED = "Passed"
    WRONG_OUTPUT = "WrongOutput"  # exited with 0 but printed something else
    FAILED = "Failed"  # failed or timed out
    SANDBOX_ERROR = "SandboxError"  # the sandbox failed
    NOT_RUN = "NotRun"  # an earlier case did not pass, or the compilation failed


class CaseResult(Resource):
    """Result of one case.

    Outputs are compared in full, then cut to an equal share of the response.
    """

    status: CaseStatus
    run_result: CommandResult | None = None
    matched: bool | None = Field(
        default=None, description="Null if nothing was expected or the program did not exit."
    )


class RunCasesResponse(Resource):
    """Results of all cases, in request order."""

    status: RunStatus = Field(description="Success if every case passed.")
    message: str = ""
    compile_result: CommandResult | None = None
    passed: int = Field(description="Number of cases that passed.")
    cases: list[CaseResult]
