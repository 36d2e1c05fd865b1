"""Conversion between requests and executions: limits, paths, files, results and statuses."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Response

from services.contracts.errors import Unprocessable
from services.contracts.sandbox.programs import CodeRequest, CommandResult, CommandStatus, RunStatus
from services.sandbox.execution import ExitReason, Limits, Outcome
from services.sandbox.languages.build import ProgramSource, source_path
from services.sandbox.languages.catalog import LANGUAGES
from services.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class Program:
    """A checked program.

    It must start within ``queue_timeout`` seconds of its arrival, or the client may give up before
    the time limits have passed.
    """

    source: ProgramSource
    compiling: Limits
    running: Limits
    queue_timeout: float


def check_program(request: CodeRequest, settings: SandboxSettings) -> Program:
    """Validate a request; raises `Unprocessable`."""
    check_seconds(request.compile_timeout, "compile_timeout", settings)
    check_seconds(request.run_timeout, "run_timeout", settings)
    memory = memory_bytes(request.memory_limit_MB, "memory_limit_MB", settings)
    output = settings.sandbox_output_bytes
    language, code = LANGUAGES[request.language], request.code.encode()
    files = decode_files(request.files, "files")
    path = source_path(language, code)
    if code and files.get(path, code) != code:
        raise Unprocessable(
            f"files: {path!r} is reserved for the code; give it another name", param="files"
        )
    is_compiled = bool(language.compile)
    spare = 0.0 if is_compiled else max(0.0, request.compile_timeout)
    return Program(
        source=ProgramSource(
            language=request.language,
            code=code,
            files=files,
        ),
        compiling=Limits(request.compile_timeout, memory, output),
        running=Limits(request.run_timeout, memory, output),
        queue_timeout=min(spare + CLIENT_SLACK_SECONDS, settings.sandbox_queue_seconds),
    )


CLIENT_SLACK_SECONDS = 10.0
"""How much longer clients wait than the sum of their request's time limits."""


def check_seconds(seconds: float, param: str, settings: SandboxSettings) -> None:
    """Raise `Unprocessable` if a time limit is too high."""
    most = settings.sandbox_max_run_seconds
    if seconds > most:
        raise Unprocessable(
            f"{param}: is above {most:g} s, the maximum of this service "
            "(TEMPER_SANDBOX_MAX_RUN_SECONDS)",
            param=param,
        )


def memory_bytes(requested_mb: int | None, param: str, settings: SandboxSettings) -> int:
    """The requested memory limit, or the default; raises `Unprocessable`."""
    most = settings.sandbox_max_memory_mb
    if requested_mb is None or requested_mb <= 0:
        return settings.sandbox_memory_mb << 20
    if requested_mb > most:
        raise Unprocessable(
            f"{param}: is above {most}, the maximum of this service (TEMPER_SANDBOX_MAX_MEMORY_MB)",
            param=param,
        )
    return requested_mb << 20


MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_PATTERNS = 20
BASE64_PIECE = 1 << 20
LARGE_BYTES = 1 << 20

Value = TypeVar("Value")


def clean_path(path: str, param: str) -> str:
    """Normalize a path relative to the work directory; raises `Unprocessable` naming ``param``."""
    reason = _fault(path)
    if reason is not None:
        raise Unprocessable(f"{param}: the path {path[:200]!r} {reason}", param=param)
    return "/".join(part for part in path.split("/") if part != ".")


def clean_paths(paths: Iterable[str], param: str) -> dict[str, str]:
    """Map each normalized path or pattern to its original spelling; raises `Unprocessable`."""
    clean = {clean_path(path, param): path for path in paths}
    if sum("*" in path for path in clean) > MAX_PATTERNS:
        raise Unprocessable(f"{param}: has more than {MAX_PATTERNS} patterns", param=param)
    return clean


def decode_files(files: Mapping[str, str | None], param: str) -> dict[str, bytes]:
    """Decode file contents by normalized path; null creates no file. Raises `Unprocessable`."""
    decoded: dict[str, bytes] = {}
    for path, content in files.items():
        clean = clean_path(path, param)
        if clean in decoded:
            raise Unprocessable(f"{param}: {path[:200]!r} is given twice", param=param)
        if content is not None:
            decoded[clean] = decode_content(content, path, param)
    _check_folders(decoded, param)
    return decoded


def decode_content(content: str, path: str, param: str) -> bytes:
    """Decode base64, which may contain line breaks; raises `Unprocessable`."""
    text = "".join(content.splitlines()) if "\n" in content or "\r" in content else content
    try:
        return b"".join(_decode_pieces(text))
    except (binascii.Error, ValueError) as error:
        raise Unprocessable(
            f"{param}: the content of {path[:200]!r} is not base64: {error}", param=param
        ) from None


def _decode_pieces(text: str) -> Iterator[bytes]:
    """Decode piece by piece: decoding many bytes in one call would block all other threads."""
    for at in range(0, len(text), BASE64_PIECE):
        piece = text[at : at + BASE64_PIECE]
        if at + BASE64_PIECE < len(text) and "=" in piece:
            raise ValueError("data after the padding")
        yield base64.b64decode(piece, validate=True)


async def in_thread_if_large(work: Callable[[], Value], size: int) -> Value:
    """Run ``work`` on ``size`` bytes without blocking the event loop for long."""
    return work() if size <= LARGE_BYTES else await asyncio.to_thread(work)


def _fault(path: str) -> str | None:
    parts = path.split("/")
    faults = (
        (path.startswith("/"), "is absolute; make it relative to the work directory"),
        (".." in parts, "leads outside of the work directory"),
        ("\0" in path, "contains a NUL character"),
        ("" in parts or parts[-1] == ".", "has an empty component, or names a folder"),
        (len(path.encode()) > MAX_PATH_BYTES, f"is longer than {MAX_PATH_BYTES} bytes"),
        (
            any(len(part.encode()) > MAX_NAME_BYTES for part in parts),
            f"has a component of more than {MAX_NAME_BYTES} bytes",
        ),
    )
    return next((reason for is_wrong, reason in faults if is_wrong), None)


def _check_folders(files: Mapping[str, bytes], param: str) -> None:
    """Reject a path that is both a file and a folder."""
    for path in files:
        parts = path.split("/")
        for length in range(1, len(parts)):
            folder = "/".join(parts[:length])
            if folder in files:
                raise Unprocessable(f"{param}: {folder[:200]!r} is also a folder", param=param)


def command_result(outcome: Outcome) -> CommandResult:
    """The wire form of an outcome; undecodable output bytes become U+FFFD."""
    timed_out = outcome.exit_reason is ExitReason.TIMED_OUT
    return CommandResult(
        status=CommandStatus.TIME_LIMIT_EXCEEDED if timed_out else CommandStatus.FINISHED,
        execution_time=outcome.wall_seconds,
        return_code=outcome.return_code,
        stdout=outcome.stdout.decode(errors="replace"),
        stderr=outcome.stderr.decode(errors="replace"),
        cpu_time=outcome.cpu_seconds,
        wait_time=outcome.waited_seconds if timed_out else None,
        peak_memory_mb=outcome.peak_memory_bytes / (1 << 20),
        out_of_memory=outcome.exit_reason is ExitReason.OUT_OF_MEMORY,
        stdout_truncated=outcome.stdout_cut,
        stderr_truncated=outcome.stderr_cut,
    )


def failed_result(reason: str) -> CommandResult:
    """The result of a program that the sandbox lost or could not run."""
    return CommandResult(status=CommandStatus.ERROR, stdout="", stderr=reason)


def run_status(*results: CommandResult | None) -> RunStatus:
    """The overall status of a compilation and a run."""
    there = [result for result in results if result is not None]
    if any(result.status is CommandStatus.ERROR for result in there):
        return RunStatus.SANDBOX_ERROR
    if all(result.return_code == 0 for result in there):
        return RunStatus.SUCCESS
    return RunStatus.FAILED


def encode_files(files: Mapping[str, bytes], spellings: Mapping[str, str]) -> dict[str, str]:
    """Fetched files in base64, under the paths as the request spelled them."""
    return {spellings.get(path, path): _encode(content) for path, content in files.items()}


def _encode(content: bytes) -> str:
    """Base64, piece by piece as in decoding; pieces are whole groups of three bytes."""
    size = 3 * LARGE_BYTES
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    return b"".join(map(base64.b64encode, pieces)).decode()


FILE_CONTENT = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
DOWNLOAD: dict[int | str, dict[str, Any]] = {200: {"content": FILE_CONTENT}}
"""OpenAPI declaration of a route that responds with `file_response`."""


def file_response(content: bytes) -> Response:
    """A file as the response body."""
    headers = {"x-content-type-options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)
