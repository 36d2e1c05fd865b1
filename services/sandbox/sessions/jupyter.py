"""/run_jupyter: run a notebook's cells in a fresh kernel."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from services.contracts.errors import AuthenticationFailed, PayloadTooLarge, Unprocessable
from services.contracts.sandbox.programs import CommandResult, CommandStatus, RunStatus
from services.contracts.sandbox.sessions import (
    CellResult,
    CellStatus,
    JupyterCell,
    RunJupyterRequest,
    RunJupyterResponse,
)
from services.core.web.auth import ToolPrincipal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body, read_body
from services.sandbox.admission import Admission, QueueFull
from services.sandbox.context import Sandbox
from services.sandbox.examples import JUPYTER
from services.sandbox.execution import Outcome, SandboxFailure
from services.sandbox.sessions.cells import run_cell
from services.sandbox.sessions.notebook import Notebook, NotEnoughMemory
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.sessions.outputs import CellOutputs, OutputBudget
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import (
    CLIENT_SLACK_SECONDS,
    check_seconds,
    clean_paths,
    decode_files,
    encode_files,
    memory_bytes,
)

router = APIRouter(
    tags=["runs"],
    responses=documented_errors(AuthenticationFailed, PayloadTooLarge, Unprocessable, QueueFull),
)


@router.post(
    "/run_jupyter",
    summary="Run a notebook's cells",
    openapi_extra=documented_body(RunJupyterRequest, JUPYTER),
    response_class=Response,
    responses={200: {"model": RunJupyterResponse}},
)
async def jupyter(request: Request, sandbox: Sandbox, _principal: ToolPrincipal) -> Response:
    """Run cells in a fresh Python kernel. Errors in cells are reported with HTTP status 200."""
    run = check_cells(await read_body(request, RunJupyterRequest), sandbox.settings)
    return await answer_to(request, run_jupyter(sandbox.notebooks, sandbox.runs.admission, run))


KILLED = -9


@dataclass(frozen=True)
class CellsRun:
    """A checked request. ``fetch`` maps normalized paths to their original spelling."""

    request: RunJupyterRequest
    files: Mapping[str, bytes]
    fetch: Mapping[str, str]
    memory_bytes: int

    @property
    def cell_seconds(self) -> float:
        """Time limit of each cell."""
        return self.request.cell_timeout if self.request.cell_timeout > 0 else math.inf


def check_cells(request: RunJupyterRequest, settings: SandboxSettings) -> CellsRun:
    """Validate a request; raises `Unprocessable`."""
    check_seconds(request.total_timeout, "total_timeout", settings)
    return CellsRun(
        request=request,
        files=decode_files(request.files, "files"),
        fetch=clean_paths(request.fetch_files, "fetch_files"),
        memory_bytes=memory_bytes(request.memory_limit_MB, "memory_limit_MB", settings),
    )


async def run_jupyter(
    notebooks: Notebooks, admission: Admission, run: CellsRun
) -> RunJupyterResponse:
    """Run the cells in one slot; raises `QueueFull`. Cancelling this kills them."""
    queue_timeout = min(CLIENT_SLACK_SECONDS, notebooks.settings.sandbox_queue_seconds)
    async with admission.permit(queue_timeout, run.memory_bytes):
        start = time.monotonic()
        try:
            notebook = await notebooks.open(run.files, run.memory_bytes, tuple(run.fetch))
        except NotEnoughMemory as error:
            driver = CommandResult(
                status=CommandStatus.FINISHED,
                execution_time=time.monotonic() - start,
                return_code=KILLED,
                stdout="",
                stderr="",
                out_of_memory=True,
            )
            return RunJupyterResponse(status=RunStatus.FAILED, message=error.message, driver=driver)
        except SandboxFailure as failure:
            return RunJupyterResponse(status=RunStatus.SANDBOX_ERROR, message=failure.message)
        start = time.monotonic()  # kernel start-up does not count toward the cells' limit
        try:
            results = await _run_cells(notebook, notebooks.budget(), run, start)
        finally:
            await notebook.end("its cells were run")
    return _response(run, results, notebook, time.monotonic() - start)


async def _run_cells(
    notebook: Notebook, budget: OutputBudget, run: CellsRun, start: float
) -> list[CellResult]:
    """The results of all cells that were run."""
    end = start + run.request.total_timeout
    results: list[CellResult] = []
    for code in run.request.cells:
        seconds = min(run.cell_seconds, end - time.monotonic())
        if seconds <= 0:
            break
        result = await run_cell(notebook, code, seconds, CellOutputs(budget))
        results.append(result)
        if result.kernel_restarted or result.status is CellStatus.SESSION_ENDED:
            break
    return results


def _response(
    run: CellsRun, results: list[CellResult], notebook: Notebook, seconds: float
) -> RunJupyterResponse:
    outcome = notebook.outcome
    if outcome is None:
        return RunJupyterResponse(status=RunStatus.SANDBOX_ERROR, message=notebook.end_reason)
    end = _end(run, results)
    timed_out = end is CellStatus.TIMED_OUT
    return_code = 0 if end is CellStatus.OK else _return_code(notebook, outcome)
    driver = CommandResult(
        status=CommandStatus.TIME_LIMIT_EXCEEDED if timed_out else CommandStatus.FINISHED,
        execution_time=seconds,
        return_code=None if timed_out else return_code,
        stdout="",
        stderr="",
        cpu_time=outcome.cpu_seconds,
        peak_memory_mb=outcome.peak_memory_bytes / (1 << 20),
        out_of_memory=notebook.ran_out_of_memory,
    )
    return RunJupyterResponse(
        status=RunStatus.SUCCESS if end is CellStatus.OK else RunStatus.FAILED,
        message=_message(end, results),
        driver=driver,
        cells=[_view(result) for result in results],
        files=encode_files(outcome.files, run.fetch),
    )


def _return_code(notebook: Notebook, outcome: Outcome) -> int:
    """The exit code of the kernel that died, or else of the driver."""
    kernel_exit = notebook.last_exit
    return (kernel_exit.return_code if kernel_exit is not None else outcome.return_code) or KILLED


def _end(run: CellsRun, results: list[CellResult]) -> CellStatus:
    """The overall result: OK, TIMED_OUT, or how the kernel was lost."""
    statuses = [result.status for result in results]
    if CellStatus.TIMED_OUT in statuses:
        return CellStatus.TIMED_OUT
    if statuses and statuses[-1] in (CellStatus.KERNEL_DIED, CellStatus.SESSION_ENDED):
        return statuses[-1]
    return CellStatus.OK if len(statuses) == len(run.request.cells) else CellStatus.TIMED_OUT


def _message(end: CellStatus, results: list[CellResult]) -> str:
    if end is CellStatus.OK:
        return ""
    if end is CellStatus.TIMED_OUT:
        late = [number for number, each in enumerate(results, 1) if each.status is end]
        return f"cell {late[0] if late else len(results) + 1} timed out"
    error = results[-1].error
    return f"cell {len(results)}: {error.evalue if error is not None else end}"


def _view(result: CellResult) -> JupyterCell:
    return JupyterCell(
        stdout=result.stdout,
        stderr=result.stderr,
        display=result.display,
        error=[result.error] if result.error is not None else [],
    )
