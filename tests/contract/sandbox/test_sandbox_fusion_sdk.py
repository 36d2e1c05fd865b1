"""The package ``sandbox-fusion``, unmodified, against the running service."""

import asyncio
import base64
from collections.abc import Callable, Iterator

import pytest
from sandbox_fusion import (
    CommandRunStatus,
    RunCodeRequest,
    RunJupyterRequest,
    RunJupyterResponse,
    RunStatus,
    SummaryMapping,
    config,
    run_code,
    run_code_async,
    run_concurrent,
    run_jupyter,
    run_jupyter_async,
    set_endpoint,
    summary_run_code_result,
)

MAPPING = SummaryMapping(
    Success="success",
    Failed="failed",
    CompileFailed="compile failed",
    CompileTimeout="compile timeout",
    RunFailed="run failed",
    RunTimeout="run timeout",
)


@pytest.fixture(autouse=True)
def endpoint(sandbox: str) -> Iterator[None]:
    before = config.SANDBOX_ENDPOINT
    set_endpoint(f"{sandbox}/")
    yield
    set_endpoint(before)


def test_a_program_is_run() -> None:
    request = RunCodeRequest(code="print(input()[::-1])", language="python", stdin="stressed")

    response = run_code(request, max_attempts=1)

    assert response.status == RunStatus.Success
    assert response.message == ""
    assert response.compile_result is None
    result = response.run_result
    assert result.status == CommandRunStatus.Finished
    assert (result.return_code, result.stdout, result.stderr) == (0, "desserts\n", "")
    assert result.cpu_time > 0
    assert result.execution_time > 0


@pytest.mark.parametrize(
    ("code", "language", "limits", "summary"),
    [
        ("print(1)", "python", {}, "success"),
        ("raise SystemExit(3)", "python", {}, "run failed"),
        ("import os\nos.kill(os.getpid(), 9)", "python", {}, "run failed"),
        ("while True: pass", "python", {"run_timeout": 0.5}, "run timeout"),
        ("print(1)", "python", {"run_timeout": 0}, "run timeout"),
        ("int main() {}", "cpp", {}, "success"),
        ("int main() { return 7; }", "cpp", {}, "run failed"),
        ("int main() { return x; }", "cpp", {}, "compile failed"),
        ("int main() {}  // in no time", "cpp", {"compile_timeout": 0}, "compile timeout"),
    ],
)
def test_every_exit_reason_has_a_summary(
    needs_language: Callable[[str], None],
    code: str,
    language: str,
    limits: dict[str, float],
    summary: str,
) -> None:
    needs_language(language)
    ample = {"compile_timeout": 60, "run_timeout": 60}
    request = RunCodeRequest(code=code, language=language, **{**ample, **limits})

    assert summary_run_code_result(run_code(request, max_attempts=1), MAPPING) == summary


def test_output_is_kept_on_timeout() -> None:
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)\nwhile True: pass"

    for seconds in (0.5, 5, 30):
        request = RunCodeRequest(code=code, language="python", run_timeout=seconds)
        response = run_code(request, max_attempts=1)
        if response.run_result.stderr:
            break  # otherwise a busy machine used up the time limit to start it

    assert response.status == RunStatus.Failed
    result = response.run_result
    assert result.status == CommandRunStatus.TimeLimitExceeded
    assert (result.return_code, result.stdout, result.stderr) == (None, "out\n", "err\n")


def test_files_are_written_and_fetched() -> None:
    code = (
        "from pathlib import Path\n"
        "data = Path('in/words.bin').read_bytes()\n"
        "Path('out').mkdir()\n"
        "Path('out/reversed.bin').write_bytes(data[::-1])\n"
    )
    request = RunCodeRequest(
        code=code,
        language="python",
        files={"in/words.bin": base64.b64encode(b"\x00\xffab").decode(), "none.txt": None},
        fetch_files=["out/reversed.bin", "missing.bin"],
    )

    response = run_code(request, max_attempts=1)

    assert response.status == RunStatus.Success, response
    assert {name: base64.b64decode(data) for name, data in response.files.items()} == {
        "out/reversed.bin": b"ba\xff\x00"
    }


def test_async_client_runs_programs() -> None:
    request = RunCodeRequest(code="import math\nprint(math.pi)", language="python")

    response = asyncio.run(run_code_async(request, max_attempts=1))

    assert response.run_result.stdout == "3.141592653589793\n"


def test_concurrent_requests_get_their_own_results() -> None:
    requests = [
        RunCodeRequest(code=f"print({number} ** 2)", language="python") for number in range(60)
    ]

    responses = run_concurrent(
        run_code, args=[[request] for request in requests], kwargs=None, concurrency=20
    )

    assert [response.run_result.stdout for response in responses] == [
        f"{number**2}\n" for number in range(60)
    ]


def test_a_missing_toolchain_is_a_sandbox_error(
    missing_language: str,
) -> None:
    request = RunCodeRequest(code="", language=missing_language)

    with pytest.raises(Exception, match=f"(?s)Sandbox responded with error:.*{missing_language}"):
        run_code(request, max_attempts=1)


def test_a_rejected_request_says_why() -> None:
    request = RunCodeRequest(code="print(1)", language="python", files={"a.txt": "not base64!"})

    with pytest.raises(Exception, match=r"(?s)responded with code 422:.*a\.txt"):
        run_code(request, max_attempts=1)


CELLS = [
    "a = 6 * 7",
    "a",
    "print(a)",
    "import sys; print('careful', file=sys.stderr)",
    "1 / 0",
    "open('made.txt', 'w').write(open('given.txt').read() * 2); None",
]


def _notebook() -> RunJupyterRequest:
    given = base64.b64encode(b"ab").decode()
    return RunJupyterRequest(cells=CELLS, files={"given.txt": given}, fetch_files=["made.txt"])


def _check_notebook(response: RunJupyterResponse) -> None:
    assert response.status == RunStatus.Success
    cells = response.cells
    assert cells[1].display == [{"text/plain": "42"}]
    assert cells[2].stdout == "42\n"
    assert cells[3].stderr == "careful\n"
    assert cells[4].error[0]["ename"] == "ZeroDivisionError"
    assert base64.b64decode(response.files["made.txt"]) == b"abab"


def test_notebook_cells_are_run() -> None:
    _check_notebook(run_jupyter(_notebook(), max_attempts=1))


def test_async_client_runs_notebook_cells() -> None:
    _check_notebook(asyncio.run(run_jupyter_async(_notebook(), max_attempts=1)))
