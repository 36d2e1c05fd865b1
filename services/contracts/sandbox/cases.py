"""POST /v1/run_cases: one program against many inputs."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictBool, model_validator

from services.contracts.base import Number, Resource
from services.contracts.sandbox.programs import CodeRequest, CommandResult, Language, RunStatus
from services.contracts.validation import AtField

MAX_CASES = 1000


class Match(StrEnum):
    """How outputs are compared."""

    LINES = "lines"  # ignores whitespace at line ends and empty lines at the end
    EXACT = "exact"  # byte for byte
    NUMBERS = "numbers"  # as lines, where words that are numbers are compared by value
    JSON = "json"  # as JSON values, of which true is not 1


class Case(BaseModel):
    """One input with its expected output."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    stdin: str | None = None
    expected_output: str | None = Field(
        default=None,
        description="Expected output; null: the case passes if the program exits with 0.",
    )
    alternatives: list[str] = Field(
        default=[], max_length=100, description="Further outputs that are right."
    )


class CheckedFile(StrEnum):
    """A file that a checker reads."""

    INPUT = "input"  # what the program read
    OUTPUT = "output"  # what it printed
    ANSWER = "answer"  # the expected output, empty where there is none


class CheckerVerdict(StrEnum):
    """How a checker tells its verdict."""

    EXIT_STATUS = "exit_status"  # testlib's: 0 is right; 1, 2, 4 and 8 are wrong
    PRINTED = "printed"  # its last word is a number: 1 is right, 0 is wrong, or a share


CheckerLanguage = Literal[Language.PYTHON, Language.CPP]
CheckerArguments = Annotated[
    tuple[CheckedFile, CheckedFile, CheckedFile],
    Field(
        description="Order of the three files in the checker's arguments: as testlib has it, or "
        "input, answer, output as in open-r1/codeforces."
    ),
]
TESTLIB_ARGUMENTS = (CheckedFile.INPUT, CheckedFile.OUTPUT, CheckedFile.ANSWER)


class Checker(CodeRequest):
    """A program that decides whether an output is right, for problems with several right ones.

    It is compiled once and run after each case whose program exited with 0, with the names of three
    files as arguments. Whatever else it does is a failure of the checker: an uncaught exception, a
    time-out, another exit status or verdict.
    """

    language: CheckerLanguage = Language.PYTHON
    arguments: CheckerArguments = TESTLIB_ARGUMENTS
    verdict: CheckerVerdict = CheckerVerdict.EXIT_STATUS

    @model_validator(mode="after")
    def _check_arguments(self) -> Self:
        check_arguments(self.arguments)
        return self


def check_arguments(arguments: tuple[CheckedFile, ...]) -> None:
    """Raise `AtField` unless a checker is given each file once."""
    if len(set(arguments)) != len(CheckedFile):
        raise AtField("arguments", "arguments: must name input, output and answer once each")


class RunCasesRequest(CodeRequest):
    """A program to compile once and run with every input; ``run_timeout`` applies to each run."""

    cases: Annotated[list[Case], FailFast(), Field(min_length=1, max_length=MAX_CASES)]
    match: Match = Match.LINES
    tolerance: Number = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Tolerance of numbers, relative or absolute; with numbers and json only.",
    )
    checker: Checker | None = Field(
        default=None, description="Program that judges the outputs in place of `match`."
    )
    stop_on_first_failure: StrictBool = Field(
        default=False, description="Whether to skip the cases after the first failure."
    )


class CaseStatus(StrEnum):
    """Result of a case."""

    PASSED = "Passed"
    WRONG_OUTPUT = "WrongOutput"  # exited with 0 but printed something else, or far too much
    FAILED = "Failed"  # failed or timed out
    SANDBOX_ERROR = "SandboxError"  # the sandbox failed
    CHECKER_FAILED = "CheckerFailed"  # the checker gave no verdict
    NOT_RUN = "NotRun"  # an earlier case did not pass, or the compilation failed


class CaseResult(Resource):
    """Result of one case.

    Outputs are compared in full, then cut to an equal share of the response. Of each as many bytes
    are kept as the longest right output has, and TEMPER_SANDBOX_OUTPUT_BYTES more; one that goes on
    is a wrong output, and no checker judges it.
    """

    status: CaseStatus = Field(description="Outcome of the case.")
    run_result: CommandResult | None = Field(
        default=None, description="Result of the program's run; null: it did not run."
    )
    matched: bool | None = Field(
        default=None,
        description="Whether the output is the expected one; null if none was expected or the "
        "program did not exit, and without a verdict of the checker.",
    )
    score: float | None = Field(
        default=None,
        description="Share of the case, 0 to 1, by the verdict of a checker; null without one.",
    )
    checker_result: CommandResult | None = Field(
        default=None, description="Result of the checker's run, or its failed compilation."
    )
    message: str = Field(default="", description="Reason why a checker gave no verdict.")


class RunCasesResponse(Resource):
    """Results of all cases, in request order."""

    status: RunStatus = Field(description="Success if every case passed.")
    message: str = Field(
        default="",
        description="Reason for a SandboxError, or why a checker gave no verdict; empty otherwise.",
    )
    compile_result: CommandResult | None = Field(
        default=None, description="Result of the compiler; null where none ran."
    )
    passed: int = Field(description="Number of cases that passed.")
    cases: list[CaseResult] = Field(description="Results of the cases, in their order.")
