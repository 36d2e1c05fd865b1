"""Results of programs, by the rules of the contract."""

import base64
import json
from typing import Any

import pytest

from tests.support.sandbox import Sandbox
from tests.support.time_limits import with_enough_time


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_exit_code_zero_is_a_success(sandbox: Sandbox) -> None:
    answer = sandbox.run("import sys; print(input()); print('e', file=sys.stderr)", stdin="hé\n")

    assert answer["status"] == "Success"
    assert (answer["message"], answer["compile_result"], answer["files"]) == ("", None, {})
    result = answer["run_result"]
    assert (result["status"], result["return_code"]) == ("Finished", 0)
    assert (result["stdout"], result["stderr"]) == ("hé\n", "e\n")


@pytest.mark.parametrize(
    ("code", "return_code"),
    [
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("def", 1),
        ("import os; os._exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("import os; os.abort()", -6),
    ],
)
def test_a_nonzero_exit_code_is_a_failure(sandbox: Sandbox, code: str, return_code: int) -> None:
    answer = sandbox.run(code)

    assert (answer["status"], answer["message"]) == ("Failed", "")
    result = answer["run_result"]
    assert (result["status"], result["return_code"]) == ("Finished", return_code)
    assert isinstance(result["stdout"], str)
    assert isinstance(result["stderr"], str)


def test_a_timeout_keeps_the_output_and_has_no_return_code(sandbox: Sandbox) -> None:
    code = "import time\nprint('so far', flush=True)\ntime.sleep(1000)"
    answer = with_enough_time(
        lambda seconds: sandbox.run(code, run_timeout=seconds),
        lambda answer: bool(answer["run_result"]["stdout"]),
    )

    assert answer["status"] == "Failed"
    result = answer["run_result"]
    assert (result["status"], result["return_code"]) == ("TimeLimitExceeded", None)
    assert (result["stdout"], result["stderr"]) == ("so far\n", "")


@pytest.mark.parametrize("seconds", [0, -1, -1e308])
def test_a_run_timeout_of_zero_times_out(sandbox: Sandbox, seconds: float) -> None:
    answer = sandbox.run("print(1)", run_timeout=seconds)

    assert answer["status"] == "Failed"
    result = answer["run_result"]
    assert (result["status"], result["return_code"]) == ("TimeLimitExceeded", None)
    assert (result["stdout"], result["stderr"]) == ("", "")


def test_a_failed_compilation_is_reported_and_nothing_runs(sandbox: Sandbox) -> None:
    answer = sandbox.run("int main() { return }", "cpp")

    assert answer["status"] == "Failed"
    assert answer["run_result"] is None
    assert answer["compile_result"]["status"] == "Finished"
    assert answer["compile_result"]["return_code"] != 0
    assert "error" in answer["compile_result"]["stderr"]


def test_a_slow_compilation_times_out(sandbox: Sandbox) -> None:
    answer = sandbox.run("int main() {}", "cpp", compile_timeout=0)

    assert (answer["status"], answer["run_result"]) == ("Failed", None)
    assert answer["compile_result"]["status"] == "TimeLimitExceeded"
    assert answer["compile_result"]["return_code"] is None


def test_a_compiled_program_has_two_results(sandbox: Sandbox) -> None:
    answer = sandbox.run('#include <cstdio>\nint main() { puts("hi"); return 4; }', "cpp")

    assert answer["status"] == "Failed"
    assert answer["compile_result"]["return_code"] == 0
    assert (answer["run_result"]["return_code"], answer["run_result"]["stdout"]) == (4, "hi\n")


def test_a_missing_toolchain_names_what_is_missing(sandbox: Sandbox) -> None:
    listed = sandbox.http.get("/v1/languages").json()["languages"]
    missing = [each for each in listed if not each["available"]]
    if not missing:
        pytest.skip("every language has its toolchain here")

    answer = sandbox.run("", missing[0]["language"])

    assert answer["status"] == "SandboxError"
    assert answer["message"]
    assert (answer["compile_result"], answer["run_result"]) == (None, None)


def test_given_files_exist_and_are_fetched(sandbox: Sandbox) -> None:
    code = """
from pathlib import Path
text = Path("in/words.txt").read_text()
Path("out").mkdir()
Path("out/upper.txt").write_text(text.upper())
Path("out/lower.txt").write_text(text.lower())
assert not Path("absent").exists()
"""
    answer = sandbox.run(
        code,
        files={"in/words.txt": encoded("One"), "absent": None},
        fetch_files=["./out/upper.txt", "out/low*", "out", "absent"],
    )

    assert answer["status"] == "Success", answer
    assert answer["files"] == {"./out/upper.txt": encoded("ONE"), "out/lower.txt": encoded("one")}


def test_time_and_memory_are_measured(sandbox: Sandbox) -> None:
    busy = sandbox.run("x = b'x' * (200 << 20)\nsum(x)\nimport time; time.sleep(0.2)")["run_result"]
    idle = sandbox.run("import time; time.sleep(1)")["run_result"]

    # What the sandbox itself had in memory before may be reclaimed meanwhile, and counts less.
    assert 250 > busy["peak_memory_mb"] > 150 > idle["peak_memory_mb"] > 0
    assert busy["cpu_time"] > idle["cpu_time"] > 0
    assert busy["execution_time"] > 0.2
    assert idle["execution_time"] > 1 > idle["cpu_time"]


def test_a_program_over_its_memory_limit_is_reported_as_such(sandbox: Sandbox) -> None:
    greedy = sandbox.run("b'x' * (500 << 20)", memory_limit_MB=100)
    killed = sandbox.run("import os; os.kill(os.getpid(), 9)", memory_limit_MB=100)

    assert greedy["status"] == killed["status"] == "Failed"
    assert greedy["run_result"]["return_code"] == killed["run_result"]["return_code"] == -9
    assert greedy["run_result"]["out_of_memory"]
    assert not killed["run_result"]["out_of_memory"]


def test_output_beyond_the_limit_is_truncated_and_flagged(sandbox: Sandbox) -> None:
    code = "import sys; sys.stdout.write('x' * (9 << 20)); sys.stderr.write('small')"
    answer = sandbox.run(code)

    result = answer["run_result"]
    assert (answer["status"], result["return_code"]) == ("Success", 0)
    assert result["stdout"] == "x" * (8 << 20)
    assert (result["stdout_truncated"], result["stderr_truncated"]) == (True, False)
    assert result["stderr"] == "small"


def test_undecodable_output_bytes_are_replaced(sandbox: Sandbox) -> None:
    code = r"import sys; sys.stdout.buffer.write(b'a\xff\x00b\r\n\xe2\x82')"

    assert sandbox.output(code) == "a\ufffd\0b\r\n\ufffd"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"print('a\ud800b')", "a\ufffdb\n"),
        (r"print('\ud83d\ude00')", "\U0001f600\n"),
        (r"print(ascii(input()))", "'\\ufffd\\x00'\n"),
    ],
)
def test_lone_surrogates_do_not_break_the_service(
    sandbox: Sandbox, text: str, printed: str
) -> None:
    body = (
        rb'{"language": "python", "run_timeout": 60, "stdin": "\ud800\u0000", "code": "%s"}'
        % text.encode()
    )

    answer = sandbox.http.post("/run_code", content=body)

    assert answer.status_code == 200
    assert answer.json()["run_result"]["stdout"] == printed


def test_a_nul_character_in_code_is_a_failure_of_the_code(sandbox: Sandbox) -> None:
    answer = sandbox.run("print(1)\0")

    assert (answer["status"], answer["run_result"]["return_code"]) == ("Failed", 1)


def test_unknown_fields_are_ignored(sandbox: Sandbox) -> None:
    assert sandbox.output("print(1)", provider="x", memory_limit_MB=None) == "1\n"


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("code", None, "code"),
        ("language", "cobol", "language"),
        ("run_timeout", "soon", "run_timeout"),
        ("run_timeout", 1e6, "run_timeout"),
        ("compile_timeout", 1e6, "compile_timeout"),
        ("memory_limit_MB", 1 << 40, "memory_limit_MB"),
        ("stdin", 1, "stdin"),
        ("files", {"a": "no base64"}, "files"),
        ("files", {"../a": ""}, "files"),
        ("files", {"/etc/passwd": ""}, "files"),
        ("files", [], "files"),
        ("fetch_files", ["a/../../b"], "fetch_files"),
        ("fetch_files", ["\0"], "fetch_files"),
        ("fetch_files", "a", "fetch_files"),
    ],
)
@pytest.mark.parametrize("path", ["/run_code", "/v1/run_code/stream"])
def test_an_invalid_field_gets_422_and_is_named(
    sandbox: Sandbox, path: str, field: str, value: object, param: str
) -> None:
    body: dict[str, Any] = {"code": "1", "language": "python", field: value}

    answer = sandbox.http.post(path, content=json.dumps(body))

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] == param


def test_a_too_large_body_is_rejected(sandbox: Sandbox) -> None:
    answer = sandbox.http.post("/run_code", content=b" " * (129 << 20))

    assert answer.status_code == 413


def test_ping_responds_as_sandbox_fusion_clients_expect(sandbox: Sandbox) -> None:
    assert sandbox.http.get("/v1/ping").json() == "pong"


def test_isolation_is_reported(sandbox: Sandbox) -> None:
    report = sandbox.http.get("/v1/isolation").json()

    assert report["tier"] in ("full", "container")
    assert {measure["name"] for measure in report["measures"]} >= {"files", "system_calls"}
    assert all(measure["description"] for measure in report["measures"])


def test_runs_are_counted(sandbox: Sandbox) -> None:
    def count(status: str) -> float:
        name = f'temper_sandbox_runs_total{{language="lua",status="{status}"}} '
        lines = sandbox.http.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = count("success") + count("toolchain_missing")
    sandbox.run("print(1)", "lua")

    assert count("success") + count("toolchain_missing") == before + 1
