"""Running code: POST /run_code, and what every other way to run code shares with it.

The field names and values are SandboxFusion's, so that its clients work unchanged; they ignore
the fields that ours has on top. Unknown fields of a request are ignored, as there.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from services.contracts.base import Number, Resource

MAX_BODY_BYTES = 128 << 20
MAX_FILES = 1000
MAX_FETCHED_FILES = 1000


class Language(StrEnum):
    """A language, or a way to test code in one."""

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
        description="Content in base64 by path below the work directory; null makes no file.",
        examples=[{"data/words.txt": "b25lIHR3bwo="}],
    ),
]
FetchedPaths = Annotated[
    list[str],
    FailFast(),
    Field(
        max_length=MAX_FETCHED_FILES,
        description="Files to answer with afterwards, by path or pattern (``*.png``); those that "
        "are not there are left out.",
    ),
]


def _as_integer(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# 1024.0 is a whole number.
Megabytes = Annotated[int, Field(strict=True), BeforeValidator(_as_integer)]


class CodeRequest(BaseModel):
    """Code, and how long and with how much memory it may run. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    code: str = Field(description="The source code.", examples=["print(1 + 1)"])
    language: Language = Field(examples=["python"])
    compile_timeout: Number = Field(default=10, description="Seconds that the compiler may take.")
    run_timeout: Number = Field(
        default=10,
        description="Seconds that the program may take; at zero or less it has timed out.",
    )
    memory_limit_MB: Megabytes | None = Field(
        default=-1,
        description="Real memory of the program; null, zero or less: the service's default.",
    )
    files: EncodedFiles = {}


class RunCodeRequest(CodeRequest):
    """One program to run."""

    stdin: str | None = Field(default=None, description="What the program reads.")
    fetch_files: FetchedPaths = []


class RunStatus(StrEnum):
    """What came of a request."""

    SUCCESS = "Success"  # every program ended with 0
    FAILED = "Failed"  # one ended otherwise, or was not done in time
    SANDBOX_ERROR = "SandboxError"  # the sandbox is to blame, not the code


class CommandStatus(StrEnum):
    """How the compiler or the program ended."""

    FINISHED = "Finished"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"
    ERROR = "Error"  # the sandbox failed


class CommandResult(Resource):
    """What came of the compiler or of the program.

    Bytes that are not UTF-8 are shown as U+FFFD.
    """

    status: CommandStatus
    execution_time: float | None = Field(default=None, description="Seconds from start to end.")
    return_code: int | None = Field(
        default=None, description="-N after death by signal N; null when it was not done in time."
    )
    stdout: str | None = None
    stderr: str | None = None
    cpu_time: float | None = Field(
        default=None, description="Seconds of processor time of all its processes."
    )
    peak_memory_mb: float | None = None
    out_of_memory: bool = Field(default=False, description="Killed at its memory limit.")
    stdout_truncated: bool = Field(default=False, description="More was written than is kept.")
    stderr_truncated: bool = False


class RunCodeResponse(Resource):
    """What came of a program. A fault of the code is answered with HTTP status 200, too."""

    status: RunStatus
    message: str = Field(default="", description="Why it is a SandboxError; empty otherwise.")
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = Field(
        default=None, description="Null when the compilation failed."
    )
    executor_pod_name: str | None = None
    files: dict[str, str] = Field(default={}, description="The fetched files, in base64.")


class OutputPiece(Resource):
    """The next piece of an output stream, while the program runs."""

    text: str
