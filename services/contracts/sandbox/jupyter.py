"""POST /run_jupyter: run a notebook's cells in a fresh kernel.

Field names and values are SandboxFusion's, so that its clients work unchanged. Unknown request
fields are ignored, as there.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import Number, Resource
from services.contracts.sandbox.programs import (
    CommandResult,
    EncodedFiles,
    FetchedPaths,
    Megabytes,
    RunStatus,
)
from services.contracts.sandbox.sessions import CellError, MimeBundle


class RunJupyterRequest(BaseModel):
    """Cells to run in sequence; one that raises does not stop the next."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    cells: list[str] = Field(description="Code of each cell.", examples=[["x = 6 * 7", "x"]])
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

    stdout: str
    stderr: str
    display: list[MimeBundle]
    error: list[CellError] = Field(description="The exception that it raised, if any.")


class RunJupyterResponse(Resource):
    """Results of the cells, in order, without those that were not started.

    Success means that every cell ran to its end, whether or not it raised.
    """

    status: RunStatus
    message: str = Field(default="", description="Reason unless the status is Success.")
    driver: CommandResult | None = Field(
        default=None, description="Result of the kernel's process."
    )
    cells: list[JupyterCell] = Field(default=[])
    executor_pod_name: str | None = None
    files: dict[str, str] = Field(default={}, description="The fetched files, in base64.")
