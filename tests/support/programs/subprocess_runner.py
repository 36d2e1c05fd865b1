"""Executions as plain processes in a folder of their own, without any isolation."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from services.sandbox.execution import (
    Executable,
    Execution,
    ExitReason,
    Outcome,
    OutputListener,
    SandboxFailure,
)


@dataclass
class SubprocessRunner:
    """A runner for a test's programs, found on ``path``. Records what it ran."""

    path: str
    ran: list[Execution] = field(default_factory=list)

    async def run(self, execution: Execution, listener: OutputListener | None = None) -> Outcome:
        """Run an executable to its end."""
        assert isinstance(execution.command, Executable)
        assert listener is None
        self.ran.append(execution)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _write_files(execution, folder)
            try:
                process = await asyncio.create_subprocess_exec(
                    *execution.command.arguments,
                    cwd=folder,
                    env={"PATH": f"{self.path}:/usr/bin:/bin", **execution.environment},
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
            except OSError as error:
                raise SandboxFailure(str(error)) from error
            stdout, stderr = await process.communicate(execution.stdin)
            return Outcome(
                exit_reason=ExitReason.EXITED,
                return_code=process.returncode,
                stdout=stdout,
                stderr=stderr,
                stdout_cut=False,
                stderr_cut=False,
                wall_seconds=1.0,
                cpu_seconds=1.0,
                peak_memory_bytes=1 << 20,
                files=_read_files(execution, folder),
            )


def _write_files(execution: Execution, folder: Path) -> None:
    for name, content in execution.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755 if name in execution.executable_files else 0o644)


def _read_files(execution: Execution, folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for pattern in execution.fetch
        for path in folder.glob(pattern)
    }
