"""POST /run_code, and the types shared by all endpoints that run code.

Field names and values are SandboxFusion's, so that its clients work unchanged; additional fields
are ours. Unknown request fields are ignored, as there.
"""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from services.contracts.base import Number, Resource

MAX_BODY_BYTES = 128 << 20
MAX_FILES = 1000
MAX_FETCHED_FILES = 1000


class Language(StrEnum):
    """A language, or a test framework for one."""

    PYTHON = "python"
    PYTEST = "pytest"
    BASH = "bash"
    CPP = "cpp"
    NODEJS = "nodejs"
    TYPESCRIPT = "typescript"
    JEST = "jest"
    GO = "go"
    GO_TEST = "go_test"
    JAVA = "java"
    JUNIT = "junit"
    RUST = "rust"
    PHP = "php"
    PERL = "perl"
    RUBY = "ruby"
    LUA = "lua"
    R = "R"
    CSHARP = "csharp"
    SQL = "sql"
    JULIA = "julia"
    SCALA = "scala"
    KOTLIN_SCRIPT = "kotlin_script"
    D_UT = "D_ut"
    SWIFT = "swift"
    RACKET = "racket"
    VERILOG = "verilog"
    LEAN = "lean"
    CUDA = "cuda"
    PYTHON_GPU = "python_gpu"


EncodedFiles = Annotated[
    dict[str, str | None],
    FailFast(),
    Field(
        max_length=MAX_FILES,
        description="Base64 content by path below the work directory; null creates no file.",
        examples=[{"data/words.txt": "b25lIHR3bwo="}],
    ),
]
FetchedPaths = Annotated[
    list[str],
    FailFast(),
    Field(
        max_length=MAX_FETCHED_FILES,
        description="Files to return afterwards, by path or pattern (``*.png``); missing ones "
        "are skipped.",
    ),
]


def _as_integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Accept 1024.0 as an integer.
Megabytes = Annotated[int, Field(strict=True), BeforeValidator(_as_integer)]


def _as_number(value: object) -> object:
    return float(value) if isinstance(value, str) and _NUMERIC.fullmatch(value) else value


_NUMERIC = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
Seconds = Annotated[
    Number,
    BeforeValidator(
        _as_number,
        json_schema_input_type=float | Annotated[str, Field(pattern=f"^{_NUMERIC.pattern}$")],
    ),
]
"""A number, also as text: some clients of SandboxFusion send it so."""


class CodeRequest(BaseModel):
    """Code with its time and memory limits. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)

    code: str = Field(description="Source code of the program.", examples=["print(1 + 1)"])
    language: Language = Field(examples=["python"])
    compile_timeout: Seconds = Field(
        default=10, description="Time limit of the compiler in seconds."
    )
    run_timeout: Seconds = Field(
        default=10,
        description="Time limit of the program in seconds; zero or less times out immediately.",
    )
    memory_limit_MB: Megabytes | None = Field(
        default=-1,
        description="Memory limit in MiB; null, zero or less: the service's default.",
    )
    files: EncodedFiles = {}


class RunCodeRequest(CodeRequest):
    """A program to run."""

    stdin: str | None = Field(default=None, description="Text on standard input.")
    fetch_files: FetchedPaths = []


class RunStatus(StrEnum):
    """Overall result of a request."""

    SUCCESS = "Success"  # every program exited with 0
    FAILED = "Failed"  # one failed or timed out
    SANDBOX_ERROR = "SandboxError"  # the sandbox failed, not the code


class CommandStatus(StrEnum):
    """How the compiler or the program ended."""

    FINISHED = "Finished"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"
    ERROR = "Error"  # the sandbox failed


class CommandResult(Resource):
    """Result of the compiler or the program.

    Bytes that are not UTF-8 are shown as U+FFFD.
    """

    status: CommandStatus = Field(description="Outcome of the command.")
    execution_time: float | None = Field(default=None, description="Wall-clock time in seconds.")
    return_code: int | None = Field(
        default=None,
        description="Exit code of the program; -N after death by signal N, null after a timeout.",
    )
    stdout: str | None = Field(
        default=None, description="Standard output; bytes that are not UTF-8 are U+FFFD."
    )
    stderr: str | None = Field(
        default=None, description="Standard error; bytes that are not UTF-8 are U+FFFD."
    )
    cpu_time: float | None = Field(
        default=None, description="CPU seconds of all the program's processes."
    )
    wait_time: float | None = Field(
        default=None,
        description="Seconds that the program was ready to run but had no processor; after a "
        "timeout only.",
    )
    peak_memory_mb: float | None = Field(
        default=None,
        description="Peak memory of all the program's processes, in MiB; null: not measured.",
    )
    out_of_memory: bool = Field(
        default=False, description="Whether the program was killed at its memory limit."
    )
    stdout_truncated: bool = Field(
        default=False, description="Whether standard output beyond the limit was dropped."
    )
    stderr_truncated: bool = Field(
        default=False, description="Whether standard error beyond the limit was dropped."
    )

    @property
    def is_starved(self) -> bool:
        """Whether a time limit passed because of other programs: it waited for a processor for at
        least half of it, and computed for less."""
        if self.status is not CommandStatus.TIME_LIMIT_EXCEEDED or not self.execution_time:
            return False
        half = self.execution_time / 2
        return (self.wait_time or 0.0) >= half > (self.cpu_time or 0.0)


class RunCodeResponse(Resource):
    """Result of a program. Failures of the code are reported with HTTP status 200."""

    status: RunStatus = Field(
        description="Outcome of the request: whether the program ran and exited with 0."
    )
    message: str = Field(
        default="",
        description="Reason for a SandboxError, or the files that are too large to fetch; empty "
        "otherwise.",
    )
    compile_result: CommandResult | None = Field(
        default=None, description="Result of the compiler; null where none ran."
    )
    run_result: CommandResult | None = Field(
        default=None,
        description="Result of the run; null where none began, as after a failed compilation.",
    )
    executor_pod_name: str | None = Field(
        default=None, description="Name of the executor in SandboxFusion's format; null here."
    )
    files: dict[str, str] = Field(default={}, description="Fetched files by path, in base64.")


class OutputPiece(Resource):
    """A piece of an output stream, sent while the program runs."""

    text: str
