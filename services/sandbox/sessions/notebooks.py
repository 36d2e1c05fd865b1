"""Opens notebooks."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from services.sandbox.execution import Execution, Limits, PythonFile, SandboxFailure
from services.sandbox.pool.pool import Pool
from services.sandbox.sessions.driver import DriverChannel
from services.sandbox.sessions.notebook import Notebook, NotEnoughMemory
from services.sandbox.sessions.outputs import OutputBudget
from services.sandbox.settings import SandboxSettings

OPEN_SECONDS = 60.0
"""The first notebook waits for the kernel's packages to be imported."""


@dataclass(frozen=True)
class Notebooks:
    """Opens notebooks in a pool, with the configured limits."""

    settings: SandboxSettings
    pool: Pool

    async def open(
        self, files: Mapping[str, bytes], memory_bytes: int, fetch: tuple[str, ...] = ()
    ) -> Notebook:
        """Open a notebook with these files and this memory limit; raises `SandboxFailure`.

        Its outcome will hold the files ``fetch``. The caller must end it.
        """
        output = self.settings.sandbox_output_bytes
        execution = Execution(
            command=PythonFile("notebook"),  # ignored: a driver is started
            limits=Limits(self.settings.sandbox_session_max_seconds, memory_bytes, output),
            files=files,
            fetch=fetch,
        )
        max_bytes = max(output, self.settings.sandbox_max_body_bytes)
        return await start_notebook(self.pool, execution, max_bytes)

    def budget(self) -> OutputBudget:
        """Limits of each stream, and of all displays."""
        size = self.settings.sandbox_output_bytes
        return OutputBudget(stdout=size, stderr=size, display=size)


async def start_notebook(pool: Pool, execution: Execution, max_bytes: int) -> Notebook:
    """Start a notebook with the files, memory and environment of ``execution``.

    ``max_bytes`` is the largest message body. Raises `SandboxFailure`.
    """
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            process = await pool.open_session(execution)
    except TimeoutError:
        raise SandboxFailure(f"no sandbox was free within {OPEN_SECONDS:.0f} s") from None
    try:
        channel = await DriverChannel.over(process.channel, max_bytes)
    except BaseException:
        await process.close()
        raise
    notebook = Notebook(process, channel)
    try:
        if await notebook.is_ready():
            return notebook
    except BaseException:
        await notebook.end("its request was cancelled")
        raise
    raise _failure(notebook)


def _failure(notebook: Notebook) -> SandboxFailure:
    if notebook.ran_out_of_memory:
        return NotEnoughMemory("a kernel needs more memory")
    outcome = notebook.outcome
    stderr = outcome.stderr.decode(errors="replace").strip() if outcome is not None else ""
    reason = stderr.rpartition("\n")[2] or notebook.end_reason
    return SandboxFailure(f"no kernel could be started: {reason}")
