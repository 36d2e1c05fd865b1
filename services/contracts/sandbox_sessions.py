"""Stateful sessions: cells that run in one Python kernel, and keep its state and files."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from services.contracts.base import Number, Request, Resource
from services.contracts.sandbox import EncodedFiles, Megabytes

MimeBundle = dict[str, Any]
"""One thing that was shown, by media type: ``text/plain``, ``image/png`` (in base64), ..."""


LEAST_MEMORY_MB = 32
"""What a kernel needs to start."""


class CreateSession(Request):
    """The body of POST /v1/sessions."""

    language: Literal["python"] = "python"
    memory_limit_mb: Annotated[Megabytes, Field(ge=LEAST_MEMORY_MB)] | None = Field(
        default=None, description="Real memory of all its processes; null: the service's default."
    )
    idle_timeout: Annotated[Number, Field(ge=1)] | None = Field(
        default=None,
        description="Seconds without a request after which it is ended; null: the service's "
        "default, which is also the most.",
    )
    files: EncodedFiles = Field(default={})


class SessionStatus(StrEnum):
    """What a session is doing."""

    IDLE = "idle"
    BUSY = "busy"  # a cell runs
    ENDED = "ended"  # there is nothing left but this record of it


class Session(Resource):
    """A Python kernel with a work directory. Times are seconds since 1970."""

    id: str
    object: Literal["session"] = "session"
    language: Literal["python"] = "python"
    status: SessionStatus
    created_at: int
    last_used_at: int
    expires_at: int = Field(description="When it ends if nobody uses it until then.")
    idle_timeout: float
    memory_limit_mb: int
    restarts: int = Field(
        description="How often its kernel had to be replaced: variables were lost, files kept."
    )
    end_reason: str | None = Field(default=None, description="Why it has ended.")


class ExecuteCell(Request):
    """The body of POST /v1/sessions/{session_id}/execute."""

    code: str = Field(description="The cell.", examples=["import math\nmath.sqrt(2)"])
    timeout: Number = Field(
        default=60.0,
        gt=0,
        description="Seconds that the cell may take; then it is interrupted, and its kernel is "
        "replaced if that does not stop it.",
    )


class CellStatus(StrEnum):
    """How a cell ended."""

    OK = "ok"
    ERROR = "error"  # it raised what `error` holds
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"  # by another request
    KERNEL_DIED = "kernel_died"  # a new one took its place
    SESSION_ENDED = "session_ended"  # with all that it ran


class CellError(Resource):
    """What ended a cell: an exception as Python tells it, or the death of its kernel."""

    ename: str
    evalue: str
    traceback: list[str] = Field(default=[])


class Shown(Resource):
    """Something that a running cell has just shown."""

    data: MimeBundle


class CellResult(Resource):
    """What came of a cell.

    Whatever is printed while a cell runs belongs to it. Bytes that are not UTF-8 are shown as
    U+FFFD.
    """

    object: Literal["session.cell"] = "session.cell"
    status: CellStatus
    execution_count: int | None = Field(
        default=None, description="The number of cells that this kernel has run."
    )
    stdout: str = ""
    stderr: str = ""
    display: list[MimeBundle] = Field(
        default=[], description="What was shown, and the value of a last expression, in order."
    )
    error: CellError | None = None
    execution_time: float = Field(default=0.0, description="Seconds from start to end.")
    kernel_restarted: bool = Field(
        default=False, description="The kernel was replaced: variables are lost, files kept."
    )
    stdout_truncated: bool = Field(default=False, description="More was written than is kept.")
    stderr_truncated: bool = False
    display_truncated: bool = False


class SessionFile(Resource):
    """A file of a session's work directory."""

    id: str = Field(description="Its path below the work directory.")
    object: Literal["session.file"] = "session.file"
    bytes: int
    modified_at: int
