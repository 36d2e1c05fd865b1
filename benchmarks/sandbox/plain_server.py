"""The baseline: run_code without optimizations or isolation.

Each request gets a process in its own folder, started by asyncio and killed at its time limit;
nothing is isolated, kept warm or reused. It uses the same web framework and server as the service,
so that only running programs differs.
"""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

CONCURRENCY = 2 * (os.cpu_count() or 1)
"""Concurrent programs; more would only compete for the processors."""

# The libraries of numpy start a thread a core otherwise, which costs a short program dearly.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Request(BaseModel):
    """The part of the contract that the benchmark's programs use."""

    code: str
    language: str
    compile_timeout: float = 10
    run_timeout: float = 10
    stdin: str | None = None


class Result(BaseModel):
    """The result of one process."""

    status: str
    execution_time: float
    return_code: int | None
    stdout: str
    stderr: str

    @property
    def succeeded(self) -> bool:
        """Whether it exited with 0."""
        return self.return_code == 0


class Response(BaseModel):
    """The answer to one call."""

    status: str
    message: str = ""
    compile_result: Result | None = None
    run_result: Result | None = None


def create_app(python: str) -> FastAPI:
    """Create the server's application; ``python`` is the interpreter of Python programs."""
    app = FastAPI()
    running = asyncio.Semaphore(CONCURRENCY)

    @app.get("/readyz")
    async def ready() -> str:
        return "ready"

    @app.post("/run_code")
    async def run_code(request: Request) -> Response:
        async with running:
            with tempfile.TemporaryDirectory(prefix="plain-") as folder:
                return await _run_in(Path(folder), request, python)

    return app


async def _run_in(folder: Path, request: Request, python: str) -> Response:
    stdin = (request.stdin or "").encode()
    if request.language == "python":
        (folder / "main.py").write_text(request.code)
        run = await _run([python, "main.py"], folder, stdin, request.run_timeout)
        return Response(status=_status(run), run_result=run)
    (folder / "main.cpp").write_text(request.code)
    command = ["g++", "-std=c++17", "-O2", "main.cpp", "-o", "main"]
    compiled = await _run(command, folder, b"", request.compile_timeout)
    if not compiled.succeeded:
        return Response(status=_status(compiled), compile_result=compiled)
    run = await _run(["./main"], folder, stdin, request.run_timeout)
    return Response(status=_status(run), compile_result=compiled, run_result=run)


async def _run(command: list[str], folder: Path, stdin: bytes, limit: float) -> Result:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(stdin), limit)
        status, code = "Finished", process.returncode
    except TimeoutError:
        stdout, stderr, status, code = b"", b"", "TimeLimitExceeded", None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Result(
        status=status,
        execution_time=time.perf_counter() - begun,
        return_code=code,
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
    )


def _status(result: Result) -> str:
    return "Success" if result.succeeded else "Failed"


if __name__ == "__main__":
    uvicorn.run(
        create_app(sys.argv[2]),
        port=int(sys.argv[1]),
        log_level="warning",
        # It starts processes by vfork, a third faster than uvloop, and feeds their stdin safely.
        loop="asyncio",
        timeout_graceful_shutdown=1,
    )
