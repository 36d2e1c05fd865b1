"""From a request to what is run: everything in it checked against what the operator allows."""

from dataclasses import dataclass

from services.contracts.sandbox import CodeRequest
from services.sandbox.execution import Limits
from services.sandbox.languages.catalogue import LANGUAGES
from services.sandbox.languages.plan import Source
from services.sandbox.limits import CLIENT_SLACK_SECONDS, check_seconds, memory_bytes
from services.sandbox.paths import decode_files
from services.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class Program:
    """What a request asks to compile and run.

    ``patience`` are the seconds from its arrival within which it has to be started, for its
    client to be still there when its time limits are used up.
    """

    source: Source
    compiling: Limits
    running: Limits
    patience: float


def check_program(request: CodeRequest, settings: SandboxSettings) -> Program:
    """What a request asks for; raises `Unprocessable`."""
    check_seconds(request.compile_timeout, "compile_timeout", settings)
    check_seconds(request.run_timeout, "run_timeout", settings)
    memory = memory_bytes(request.memory_limit_MB, "memory_limit_MB", settings)
    output = settings.sandbox_output_bytes
    is_compiled = bool(LANGUAGES[request.language].compile)
    spare = 0.0 if is_compiled else max(0.0, request.compile_timeout)
    return Program(
        source=Source(
            language=request.language,
            code=request.code.encode(),
            files=decode_files(request.files, "files"),
        ),
        compiling=Limits(request.compile_timeout, memory, output),
        running=Limits(request.run_timeout, memory, output),
        patience=min(spare + CLIENT_SLACK_SECONDS, settings.sandbox_queue_seconds),
    )
