"""Checkers get their files, and their verdicts are told from their failures."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from services.contracts.sandbox.cases import Checker, CheckerVerdict
from services.sandbox.execution import ExitReason, Outcome
from services.sandbox.runs.checkers import checker_input, judgment, with_files

GIVEN = (b"3\n", b"1 2\xff\r\n", b"2 1\n")
READS = "import sys\ngiven, printed, answer = [open(each, 'rb').read() for each in sys.argv[1:]]\n"


def ended(code: int | None, stdout: bytes = b"", stderr: bytes = b"") -> Outcome:
    reason = ExitReason.TIMED_OUT if code is None else ExitReason.EXITED
    return Outcome(reason, code, stdout, stderr, False, False, 0.1, 0.1, 1, {})


def checked(folder: Path, code: str) -> subprocess.CompletedProcess[bytes]:
    program = with_files(Checker(code=READS + code)).code
    return subprocess.run(
        [sys.executable, "-I", "-c", program],
        input=checker_input(*GIVEN),
        capture_output=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (f"assert (given, printed, answer) == {GIVEN!r}\nassert not sys.stdin.read()", 0),
        ("sys.exit(1)", 1),
        ("if __name__ == '__main__': sys.exit(2)", 2),
        ("assert False", 3),
        ("def f(:", 3),
    ],
)
def test_a_checker_reads_its_files_and_an_exception_is_no_verdict(
    tmp_path: Path, code: str, status: int
) -> None:
    assert checked(tmp_path, code).returncode == status


@pytest.mark.parametrize(
    ("outcome", "score"),
    [
        *((ended(0), 1.0), (ended(1), 0.0), (ended(2), 0.0), (ended(4), 0.0), (ended(8), 0.0)),
        *((ended(3), None), (ended(7), None), (ended(-9), None), (ended(None), None)),
    ],
)
def test_exit_statuses_are_testlibs(outcome: Outcome, score: float | None) -> None:
    assert judgment(outcome, CheckerVerdict.EXIT_STATUS).score == score


@pytest.mark.parametrize(
    ("outcome", "score"),
    [
        *((ended(0, b"1\n"), 1.0), (ended(0, b"compared\n0\n"), 0.0), (ended(0, b"0.25"), 0.25)),
        *((ended(0), None), (ended(0, b"yes"), None), (ended(0, b"nan"), None)),
        *((ended(0, b"100"), None), (ended(1, b"1"), None)),
    ],
)
def test_printed_verdicts_are_numbers(outcome: Outcome, score: float | None) -> None:
    assert judgment(outcome, CheckerVerdict.PRINTED).score == score


def test_a_failure_says_what_the_checker_wrote() -> None:
    message = judgment(ended(3, stderr=b"no such edge\n"), CheckerVerdict.EXIT_STATUS).message

    assert "exited with 3" in message
    assert "no such edge" in message


def test_each_file_is_an_argument_once() -> None:
    with pytest.raises(ValidationError, match="once each"):
        Checker.model_validate({"code": "", "arguments": ["input", "output", "output"]})
