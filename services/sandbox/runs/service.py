"""Compiles and runs checked programs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.contracts.sandbox.programs import (
    CommandResult,
    RunCodeRequest,
    RunCodeResponse,
    RunStatus,
)
from services.sandbox.admission import Admission
from services.sandbox.execution import Outcome, OutputListener, SandboxFailure
from services.sandbox.languages.build import Build, Languages
from services.sandbox.languages.catalog import ToolchainMissing
from services.sandbox.metrics import RunMetrics
from services.sandbox.settings import SandboxSettings
from services.sandbox.wire import (
    Program,
    check_program,
    clean_paths,
    command_result,
    encode_files,
    failed_result,
    in_thread_if_large,
    run_status,
)

CompilationListener = Callable[[CommandResult], None]
"""Called with the compiler's result, if there is a compiler."""


@dataclass(frozen=True)
class CodeRun:
    """A checked request for one run. ``fetch`` maps normalized paths to their original spelling."""

    program: Program
    stdin: bytes
    fetch: Mapping[str, str]


@dataclass(frozen=True)
class Compiled:
    """A program that is ready to run; without a ``build``, ``status`` says why it is not."""

    build: Build | None
    result: CommandResult | None = None
    status: RunStatus = RunStatus.SUCCESS
    message: str = ""


@dataclass(frozen=True)
class Runs:
    """Runs code for clients."""

    settings: SandboxSettings
    admission: Admission
    languages: Languages
    metrics: RunMetrics

    def check(self, request: RunCodeRequest) -> CodeRun:
        """Validate a request; raises `Unprocessable`."""
        return CodeRun(
            program=check_program(request, self.settings),
            stdin=(request.stdin or "").encode(),
            fetch=clean_paths(request.fetch_files, "fetch_files"),
        )

    @asynccontextmanager
    async def permit(self, program: Program, queue_timeout: float) -> AsyncIterator[None]:
        """Hold a slot for a program, acquired within ``queue_timeout`` seconds.

        Raises `QueueFull`.
        """
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        async with self.admission.permit(queue_timeout, program.running.memory_bytes):
            self.metrics.waited(loop.time() - arrived)
            yield

    async def execute(
        self,
        run: CodeRun,
        listener: OutputListener | None = None,
        compiled: CompilationListener | None = None,
    ) -> RunCodeResponse:
        """Compile and run in the caller's slot. Failures of the sandbox become part of the
        response.
        """
        compilation = await self.compile(run.program)
        if compilation.result is not None and compiled is not None:
            compiled(compilation.result)
        if compilation.build is None:
            return RunCodeResponse(
                status=compilation.status,
                message=compilation.message,
                compile_result=compilation.result,
            )
        try:
            outcome = await self.run(
                run.program, compilation.build, run.stdin, tuple(run.fetch), listener
            )
        except SandboxFailure as failure:
            result, files, message = failed_result(failure.message), {}, failure.message
        else:
            result, message = command_result(outcome), _left_out(outcome)
            size = sum(map(len, outcome.files.values()))
            files = await in_thread_if_large(lambda: encode_files(outcome.files, run.fetch), size)
        return RunCodeResponse(
            status=run_status(compilation.result, result),
            message=message,
            compile_result=compilation.result,
            run_result=result,
            files=files,
        )

    async def compile(self, program: Program) -> Compiled:
        """Compile a program in the caller's slot, if its language is compiled."""
        language = program.source.language
        try:
            build = await self.languages.build(program.source, program.compiling)
        except ToolchainMissing as missing:
            self.metrics.not_run(language, "toolchain_missing")
            return Compiled(None, None, RunStatus.SANDBOX_ERROR, missing.message)
        except SandboxFailure as failure:
            self.metrics.not_run(language, "sandbox_error")
            failed = failed_result(failure.message)
            return Compiled(None, failed, RunStatus.SANDBOX_ERROR, failure.message)
        result = command_result(build.outcome) if build.outcome is not None else None
        if build.ready:
            return Compiled(build, result)
        self.metrics.not_run(language, "compilation_failed")
        return Compiled(None, result, run_status(result))

    async def run(
        self,
        program: Program,
        build: Build,
        stdin: bytes,
        fetch: tuple[str, ...] = (),
        listener: OutputListener | None = None,
    ) -> Outcome:
        """Run a build in the caller's slot; raises `SandboxFailure`."""
        language = program.source.language
        try:
            outcome = await self.languages.run(
                build, program.running, stdin=stdin, fetch=fetch, listener=listener
            )
        except SandboxFailure:
            self.metrics.not_run(language, "sandbox_error")
            raise
        self.metrics.ran(language, outcome)
        return outcome


def _left_out(outcome: Outcome) -> str:
    if not outcome.left_out:
        return ""
    return "too large to fetch: " + ", ".join(outcome.left_out[:20])
