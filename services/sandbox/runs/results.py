"""Outcomes as the wire shows them, and the rules by which they add up to a status."""

import base64
from collections.abc import Mapping

from services.contracts.sandbox import CommandResult, CommandStatus, RunStatus
from services.sandbox.execution import Ending, Outcome


def command_result(outcome: Outcome) -> CommandResult:
    """What came of a program. Outputs are texts whatever it wrote."""
    timed_out = outcome.ending is Ending.TIMED_OUT
    return CommandResult(
        status=CommandStatus.TIME_LIMIT_EXCEEDED if timed_out else CommandStatus.FINISHED,
        execution_time=outcome.wall_seconds,
        return_code=outcome.return_code,
        stdout=outcome.stdout.decode(errors="replace"),
        stderr=outcome.stderr.decode(errors="replace"),
        cpu_time=outcome.cpu_seconds,
        peak_memory_mb=outcome.peak_memory_bytes / (1 << 20),
        out_of_memory=outcome.ending is Ending.OUT_OF_MEMORY,
        stdout_truncated=outcome.stdout_cut,
        stderr_truncated=outcome.stderr_cut,
    )


def failed_result(reason: str) -> CommandResult:
    """The result of a program that the sandbox could not run, or lost."""
    return CommandResult(status=CommandStatus.ERROR, stdout="", stderr=reason)


def run_status(*results: CommandResult | None) -> RunStatus:
    """What the results of a compiler and a program add up to."""
    there = [result for result in results if result is not None]
    if any(result.status is CommandStatus.ERROR for result in there):
        return RunStatus.SANDBOX_ERROR
    if all(result.return_code == 0 for result in there):
        return RunStatus.SUCCESS
    return RunStatus.FAILED


def encode_files(files: Mapping[str, bytes], asked: Mapping[str, str]) -> dict[str, str]:
    """Fetched files in base64, under the names that they were asked for by."""
    return {
        asked.get(path, path): base64.b64encode(content).decode() for path, content in files.items()
    }
