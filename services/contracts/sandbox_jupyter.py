"""Running a notebook's cells in a kernel of their own: POST /run_jupyter.

The field names and values are SandboxFusion's, so that its clients work unchanged. Unknown fields
of a request are ignored, as there.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import Number, Resource
from services.contracts.sandbox import (
    CommandResult,
    EncodedFiles,
    FetchedPaths,
    Megabytes,
    RunStatus,
)
from services.contracts.sandbox_sessions import CellError, MimeBundle


class RunJupyterRequest(BaseModel):
    """Cells to run one after another; one that raises does not stop the next."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    cells: list[str] = Field(description="The code of each.", examples=[["x = 6 * 7", "x"]])
    cell_timeout: Number = Field(
        default=0, description="Seconds that each cell may take; none of its own at zero or less."
    )
    total_timeout: Number = Field(default=45, description="Seconds that all may take together.")
    kernel: Literal["python3"] = "python3"
    memory_limit_MB: Megabytes | None = Field(
        default=-1, description="Real memory; null, zero or less: the service's default."
    )
    files: EncodedFiles = {}
    fetch_files: FetchedPaths = []


class JupyterCell(Resource):
    """What came of a cell."""

    stdout: str
    stderr: str
    display: list[MimeBundle]
    error: list[CellError] = Field(description="The exception that ended it, if one did.")


class RunJupyterResponse(Resource):
    """What came of the cells, in order; those that were not begun are missing.

    Success means that every cell was run to its end, be it by an exception.
    """

    status: RunStatus
    message: str = Field(default="", description="Why it is no Success.")
    driver: CommandResult | None = Field(default=None, description="What came of the kernel.")
    cells: list[JupyterCell] = Field(default=[])
    executor_pod_name: str | None = None
    files: dict[str, str] = Field(default={}, description="The fetched files, in base64.")
