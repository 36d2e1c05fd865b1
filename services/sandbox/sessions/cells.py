"""Run a cell with a timeout and build the API response."""

import asyncio
import signal
import time

from services.contracts.sandbox.sessions import CellError, CellResult, CellStatus
from services.sandbox.execution import Stream
from services.sandbox.sessions.notebook import CellOutcome, KernelExit, Notebook
from services.sandbox.sessions.outputs import CellOutputs

INTERRUPT_SECONDS = 10.0
"""Grace period after an interrupt before the kernel, with all variables, is replaced: on a busy
machine the handler takes seconds to run."""
REPLACE_SECONDS = 15.0


async def run_cell(
    notebook: Notebook, code: str, seconds: float, outputs: CellOutputs
) -> CellResult:
    """Run a cell, and stop it after ``seconds`` or on cancellation.

    Waits first for a kernel that is still starting.
    """
    await notebook.is_ready()
    started = time.monotonic()
    running = asyncio.ensure_future(notebook.execute(code, outputs))
    try:
        await asyncio.wait((running,), timeout=max(0.0, seconds))
        timed_out = not running.done()
        if timed_out:
            await _stop(notebook, running)
    except asyncio.CancelledError:
        await _stop(notebook, running)
        raise
    outputs.close()
    return _result(notebook, running.result(), outputs, time.monotonic() - started, timed_out)


async def _stop(notebook: Notebook, running: "asyncio.Future[CellOutcome]") -> None:
    """Interrupt a cell; failing that, kill its kernel; failing that, end the notebook."""
    await notebook.interrupt()
    if await _finishes(running, INTERRUPT_SECONDS):
        return
    await notebook.restart()
    if await _finishes(running, REPLACE_SECONDS):
        return
    await notebook.end("its kernel could not be replaced")
    await running


async def _finishes(running: "asyncio.Future[CellOutcome]", seconds: float) -> bool:
    done, _ = await asyncio.wait((running,), timeout=seconds)
    return bool(done)


def _result(
    notebook: Notebook, end: CellOutcome, outputs: CellOutputs, seconds: float, timed_out: bool
) -> CellResult:
    cut = outputs.cut | set(end.done.cut if end.done else ())
    return CellResult(
        status=_status(end, timed_out),
        execution_count=end.done.count if end.done else None,
        stdout=outputs.text(Stream.STDOUT),
        stderr=outputs.text(Stream.STDERR),
        display=outputs.display,
        error=_error(notebook, end) or outputs.error,
        execution_time=seconds,
        kernel_restarted=end.kernel_exit is not None,
        stdout_truncated="stdout" in cut,
        stderr_truncated="stderr" in cut,
        display_truncated="display" in cut,
    )


def _status(end: CellOutcome, timed_out: bool) -> CellStatus:
    if end.done is None and end.kernel_exit is None:
        return CellStatus.SESSION_ENDED
    if timed_out:
        return CellStatus.TIMED_OUT
    if end.interrupted:
        return CellStatus.INTERRUPTED
    if end.done is None:
        return CellStatus.KERNEL_DIED
    return CellStatus.OK if end.done.ok else CellStatus.ERROR


def _error(notebook: Notebook, end: CellOutcome) -> CellError | None:
    if end.kernel_exit is not None:
        when = "" if end.started else "before the cell could run: "
        lost = "it was replaced; variables are lost, files are kept"
        return CellError(
            ename="KernelDied", evalue=f"{when}{describe_exit(end.kernel_exit)}; {lost}"
        )
    if end.done is None:
        return CellError(ename="SessionEnded", evalue=notebook.end_reason)
    return None


def describe_exit(kernel_exit: KernelExit) -> str:
    """Why a kernel exited, in words."""
    if kernel_exit.out_of_memory:
        return "the kernel exceeded its memory limit"
    if kernel_exit.return_code >= 0:
        return f"the kernel exited with code {kernel_exit.return_code}"
    try:
        return f"the kernel was killed by {signal.Signals(-kernel_exit.return_code).name}"
    except ValueError:
        return f"the kernel was killed by signal {-kernel_exit.return_code}"
