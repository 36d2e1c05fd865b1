"""Cells in a Python kernel: stateful sessions that keep its files, and notebooks in a fresh one.

Field names and values of POST /run_jupyter are SandboxFusion's, so that its clients work unchanged.
Unknown request fields are ignored, as there.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import Number, Request, Resource
from services.contracts.sandbox.programs import (
    CommandResult,
    EncodedFiles,
    FetchedPaths,
    Megabytes,
    RunStatus,
)

MimeBundle = dict[str, Any]
"""A display by media type: ``text/plain``, ``image/png`` (in base64), ..."""


LEAST_MEMORY_MB = 32
"""Minimum for a kernel to start."""


class CreateSession(Request):
    """Body of POST /v1/sessions."""

    language: Literal["python"] = "python"
    memory_limit_mb: Annotated[Megabytes, Field(ge=LEAST_MEMORY_MB)] | None = Field(
        default=None,
        description="Memory limit in MiB of all processes of the session; null: the service's "
        "default.",
    )
    idle_timeout: Annotated[Number, Field(ge=1)] | None = Field(
        default=None,
        description="Seconds without a request after which the session ends; null: the service's "
        "default, which is also the maximum.",
    )
    files: EncodedFiles = Field(default={})


class SessionStatus(StrEnum):
    """State of a session."""

    IDLE = "idle"
    BUSY = "busy"  # a cell is running
    ENDED = "ended"  # only this record remains


class Session(Resource):
    """A Python kernel with a work directory. Times are seconds since 1970."""

    id: str
    object: Literal["session"] = "session"
    language: Literal["python"] = "python"
    status: SessionStatus
    created_at: int
    last_used_at: int
    expires_at: int = Field(description="Time at which the session ends unless it is used before.")
    idle_timeout: float
    memory_limit_mb: int
    restarts: int = Field(
        description="Number of times the kernel was replaced: variables were lost, files kept."
    )
    end_reason: str | None = Field(default=None, description="Reason why the session has ended.")


class ExecuteCell(Request):
    """Body of POST /v1/sessions/{session_id}/execute."""

    code: str = Field(
        description="Source code of the cell.", examples=["import math\nmath.sqrt(2)"]
    )
    timeout: Number = Field(
        default=60.0,
        gt=0,
        description="Time limit in seconds; then the cell is interrupted, and its kernel is "
        "replaced if that does not stop it.",
    )


class CellStatus(StrEnum):
    """How a cell ended."""

    OK = "ok"
    ERROR = "error"  # raised what `error` holds
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"  # by another request
    KERNEL_DIED = "kernel_died"  # replaced by a new one
    SESSION_ENDED = "session_ended"  # along with everything it ran


class CellError(Resource):
    """An exception as Python reports it, or the death of the kernel."""

    ename: str = Field(description="Name of the exception.")
    evalue: str = Field(description="Message of the exception.")
    traceback: list[str] = Field(default=[], description="Lines of the traceback.")


class Shown(Resource):
    """A display of a running cell."""

    data: MimeBundle


class CellResult(Resource):
    """Result of a cell.

    Everything printed while a cell runs is attributed to it. Bytes that are not UTF-8 are shown as
    U+FFFD.
    """

    object: Literal["session.cell"] = "session.cell"
    status: CellStatus
    execution_count: int | None = Field(
        default=None, description="Number of cells that this kernel has run."
    )
    stdout: str = ""
    stderr: str = ""
    display: list[MimeBundle] = Field(
        default=[], description="Displays and the value of a last expression, in order."
    )
    error: CellError | None = None
    execution_time: float = Field(default=0.0, description="Wall-clock time in seconds.")
    kernel_restarted: bool = Field(
        default=False,
        description="Whether the kernel was replaced: variables are lost, files kept.",
    )
    stdout_truncated: bool = Field(
        default=False, description="Whether output beyond the limit was dropped."
    )
    stderr_truncated: bool = False
    display_truncated: bool = False


class SessionFile(Resource):
    """A file in a session's work directory."""

    id: str = Field(description="Path below the work directory.")
    object: Literal["session.file"] = "session.file"
    bytes: int
    modified_at: int


class RunJupyterRequest(BaseModel):
    """Cells to run in sequence; one that raises does not stop the next."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, defer_build=True)

    cells: list[str] = Field(description="Source code of each cell.", examples=[["x = 6 * 7", "x"]])
    cell_timeout: Number = Field(
        default=0, description="Time limit of each cell in seconds; zero or less: none."
    )
    total_timeout: Number = Field(
        default=45, description="Time limit of all cells together, in seconds."
    )
    kernel: Literal["python3"] = "python3"
    memory_limit_MB: Megabytes | None = Field(
        default=-1,
        description="Memory limit in MiB; null, zero or less: the service's default.",
    )
    files: EncodedFiles = {}
    fetch_files: FetchedPaths = []


class JupyterCell(Resource):
    """Result of a cell."""

    stdout: str = Field(description="Standard output of the cell.")
    stderr: str = Field(description="Standard error of the cell.")
    display: list[MimeBundle] = Field(
        description="Displays and the value of a last expression, in order."
    )
    error: list[CellError] = Field(
        description="Exception that the cell raised or death of its kernel, alone; empty: none."
    )


class RunJupyterResponse(Resource):
    """Results of the cells, in order, without those that were not started.

    Success means that every cell ran to its end, whether or not it raised.
    """

    status: RunStatus = Field(
        description="Outcome of the request: Success if every cell ran to its end, also if it "
        "raised."
    )
    message: str = Field(default="", description="Reason unless the status is Success.")
    driver: CommandResult | None = Field(
        default=None, description="Result of the kernel's process."
    )
    cells: list[JupyterCell] = Field(
        default=[], description="Outputs of the cells, in their order."
    )
    executor_pod_name: str | None = Field(
        default=None, description="Name of the executor in SandboxFusion's format; null here."
    )
    files: dict[str, str] = Field(default={}, description="Fetched files by path, in base64.")
