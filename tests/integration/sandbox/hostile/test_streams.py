"""Programs with endless or undecodable output, and unread input."""

import json
from typing import Any

import pytest

from tests.support.sandbox import TIME_LIMITS, Sandbox
from tests.support.time_limits import with_enough_time

KEPT = 8 << 20


def test_endless_output_is_truncated_until_the_timeout(sandbox: Sandbox) -> None:
    code = "while True: print('x' * 1000)"
    result = with_enough_time(
        lambda seconds: sandbox.run(code, run_timeout=seconds)["run_result"],
        lambda result: bool(result["stdout_truncated"]),
    )
    assert result["status"] == "TimeLimitExceeded"
    assert len(result["stdout"]) == KEPT
    assert result["stdout_truncated"] is True


def test_a_hundred_megabytes_are_drained(sandbox: Sandbox) -> None:
    code = """
import sys
for _ in range(100): sys.stdout.write('x' * (1 << 20))
sys.stderr.write('written')
"""
    result = sandbox.run(code, run_timeout=60)["run_result"]
    assert result["return_code"] == 0
    assert result["stderr"] == "written"
    assert len(result["stdout"]) == KEPT


def test_stdin_may_stay_unread(sandbox: Sandbox) -> None:
    assert sandbox.output("print('done')", stdin="x" * (50 << 20)) == "done\n"


def test_large_stdin_arrives(sandbox: Sandbox) -> None:
    code = "import sys\nprint(len(sys.stdin.read()))"
    assert sandbox.output(code, stdin="é" * (20 << 20)) == f"{20 << 20}\n"


def test_dev_stdout_and_dev_stdin_can_be_opened(sandbox: Sandbox) -> None:
    code = "cat /dev/stdin > /dev/stdout; echo told > /dev/stderr"
    result = sandbox.run(code, language="bash", stdin="read")["run_result"]
    assert (result["stdout"], result["stderr"]) == ("read", "told\n")


def test_a_program_cannot_read_its_output_back(sandbox: Sandbox) -> None:
    code = """
import os
os.write(1, b'written ')
try: os.open('/dev/stdout', os.O_RDONLY)
except PermissionError: print('kept')
"""
    assert sandbox.output(code) == "written kept\n"


def test_undecodable_bytes_are_replaced(sandbox: Sandbox) -> None:
    code = r"import os; os.write(1, b'before \xff\xfe \x00 after \xc3\xa9')"
    assert sandbox.output(code) == "before �� \x00 after é"


def run_ascii_json(sandbox: Sandbox, **body: str) -> dict[str, Any]:
    """A response to a request with ASCII JSON, which may hold lone surrogates."""
    headers = {"content-type": "application/json"}
    answer = sandbox.http.post("/run_code", content=json.dumps(TIME_LIMITS | body), headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("code", ["print('\ud800')", "print(1)\x00"])
def test_lone_surrogates_in_code_get_a_response(sandbox: Sandbox, code: str) -> None:
    answer = run_ascii_json(sandbox, code=code, language="python")
    assert answer["run_result"]["status"] == "Finished"


def test_a_lone_surrogate_in_stdin_is_replaced(sandbox: Sandbox) -> None:
    code = "import sys\nprint(len(sys.stdin.buffer.read()) > 0)"
    answer = run_ascii_json(sandbox, code=code, language="python", stdin="\udfff")
    assert answer["run_result"]["stdout"] == "True\n"
