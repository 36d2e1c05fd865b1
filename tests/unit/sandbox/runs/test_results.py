"""How results combine into a status."""

from dataclasses import replace

import pytest

from services.contracts.sandbox.programs import CommandResult, CommandStatus, RunStatus
from services.sandbox.execution import ExitReason, Outcome
from services.sandbox.wire import command_result, failed_result, run_status


def outcome(ending: ExitReason, return_code: int | None, stdout: bytes = b"") -> Outcome:
    return Outcome(
        exit_reason=ending,
        return_code=return_code,
        stdout=stdout,
        stderr=b"",
        stdout_cut=True,
        stderr_cut=False,
        wall_seconds=0.5,
        cpu_seconds=0.25,
        peak_memory_bytes=3 << 20,
        files={},
    )


FINE = command_result(outcome(ExitReason.EXITED, 0))
WRONG = command_result(outcome(ExitReason.EXITED, 1))
SLOW = command_result(outcome(ExitReason.TIMED_OUT, None))
LOST = failed_result("the zygote ended")


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ((None, FINE), RunStatus.SUCCESS),
        ((FINE, FINE), RunStatus.SUCCESS),
        ((FINE, WRONG), RunStatus.FAILED),
        ((FINE, SLOW), RunStatus.FAILED),
        ((WRONG, None), RunStatus.FAILED),
        ((SLOW, None), RunStatus.FAILED),
        ((FINE, LOST), RunStatus.SANDBOX_ERROR),
        ((LOST, None), RunStatus.SANDBOX_ERROR),
        ((LOST, WRONG), RunStatus.SANDBOX_ERROR),
    ],
)
def test_a_sandbox_error_outweighs_a_failure(
    results: tuple[CommandResult | None, ...], status: RunStatus
) -> None:
    assert run_status(*results) is status


def test_a_timed_out_result_keeps_its_output() -> None:
    result = command_result(outcome(ExitReason.TIMED_OUT, None, b"so far"))

    assert result.status is CommandStatus.TIME_LIMIT_EXCEEDED
    assert (result.return_code, result.stdout) == (None, "so far")


@pytest.mark.parametrize(
    ("waited", "computed", "starved"),
    [(0.3, 0.1, True), (0.25, 0.1, True), (0.2, 0.1, False), (0.0, 0.0, False), (0.4, 0.25, False)],
)
def test_a_program_is_starved_if_it_mostly_waited_for_a_processor(
    waited: float, computed: float, starved: bool
) -> None:
    ended = outcome(ExitReason.TIMED_OUT, None)
    result = command_result(replace(ended, waited_seconds=waited, cpu_seconds=computed))

    assert (result.execution_time, result.wait_time) == (0.5, waited)
    assert result.is_starved is starved


def test_a_program_that_ended_is_not_starved() -> None:
    ended = replace(outcome(ExitReason.EXITED, 1), waited_seconds=0.4, cpu_seconds=0.0)

    assert not command_result(ended).is_starved


def test_killed_programs_count_as_finished() -> None:
    killed = command_result(outcome(ExitReason.EXITED, -11))
    swollen = command_result(outcome(ExitReason.OUT_OF_MEMORY, -9))

    assert (killed.status, killed.return_code) == (CommandStatus.FINISHED, -11)
    assert (swollen.status, swollen.return_code) == (CommandStatus.FINISHED, -9)
    assert (killed.out_of_memory, swollen.out_of_memory) == (False, True)


def test_usage_and_truncation_are_reported() -> None:
    assert (FINE.execution_time, FINE.cpu_time, FINE.peak_memory_mb) == (0.5, 0.25, 3.0)
    assert (FINE.stdout_truncated, FINE.stderr_truncated) == (True, False)


def test_only_invalid_bytes_are_replaced() -> None:
    result = command_result(outcome(ExitReason.EXITED, 0, b"a\xffb\0c\r\n\xe2\x82"))

    assert result.stdout == "a\ufffdb\0c\r\n\ufffd"
