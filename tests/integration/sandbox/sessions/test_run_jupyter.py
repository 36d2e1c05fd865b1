"""/run_jupyter: cells in a fresh kernel, by SandboxFusion's contract."""

import base64
from typing import Any

import pytest

from tests.support.sandbox import Sandbox

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"


def run(sandbox: Sandbox, *cells: str, **fields: Any) -> dict[str, Any]:
    answer = sandbox.http.post("/run_jupyter", json={"cells": list(cells), **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_cells_share_a_kernel_and_continue_after_an_error(sandbox: Sandbox) -> None:
    answer = run(
        sandbox,
        "a = 'hello'",
        "a",
        "import sys; print('warned', file=sys.stderr)",
        "assert False",
        "print(a)",
        PLOT,
    )
    assert (answer["status"], answer["message"]) == ("Success", "")
    cells = answer["cells"]
    assert cells[0] == {"stdout": "", "stderr": "", "display": [], "error": []}
    assert cells[1]["display"] == [{"text/plain": "'hello'"}]
    assert cells[2]["stderr"] == "warned\n"
    assert cells[3]["error"][0]["ename"] == "AssertionError"
    assert cells[3]["error"][0]["traceback"]
    assert cells[4]["stdout"] == "hello\n"
    assert base64.b64decode(cells[5]["display"][0]["image/png"]).startswith(b"\x89PNG")
    driver = answer["driver"]
    assert (driver["status"], driver["return_code"]) == ("Finished", 0)
    assert (driver["stdout"], driver["stderr"]) == ("", "")
    assert driver["cpu_time"] > 0


def test_files_are_sent_and_fetched(sandbox: Sandbox) -> None:
    answer = run(
        sandbox,
        "text = open('in/a.txt').read()\nopen('b.txt', 'w').write(text.upper())",
        "import os\nos.symlink('/etc/passwd', 'link')",
        files={"in/a.txt": base64.b64encode(b"abc").decode(), "none": None},
        fetch_files=["b.txt", "missing", "link", "in/*.txt"],
    )
    files = {path: base64.b64decode(content) for path, content in answer["files"].items()}
    assert files == {"b.txt": b"ABC", "in/a.txt": b"abc"}


def test_the_total_timeout_keeps_finished_cells(sandbox: Sandbox) -> None:
    for seconds in (4, 30):
        answer = run(
            sandbox,
            "print('one'); open('done.txt', 'w').write('1')",
            "print('two', flush=True)\nwhile True: pass",
            "print('three')",
            total_timeout=seconds,
            fetch_files=["done.txt"],
        )
        if [cell["stdout"] for cell in answer["cells"]] == ["one\n", "two\n"]:
            break  # else the machine is too busy to come so far in this time
    assert answer["status"] == "Failed"
    assert (answer["driver"]["status"], answer["driver"]["return_code"]) == (
        "TimeLimitExceeded",
        None,
    )
    assert [cell["stdout"] for cell in answer["cells"]] == ["one\n", "two\n"]
    assert answer["files"] == {"done.txt": base64.b64encode(b"1").decode()}


def test_a_cell_timeout_does_not_stop_the_next_cell(sandbox: Sandbox) -> None:
    for seconds in (1, 5, 15):
        answer = run(sandbox, "while True: pass", "print('next')", cell_timeout=seconds)
        if [cell["stdout"] for cell in answer["cells"]] == ["", "next\n"]:
            break  # else the machine is too busy even for the second cell in this time
    assert answer["status"] == "Failed"
    assert answer["driver"]["status"] == "TimeLimitExceeded"
    assert answer["cells"][0]["error"][0]["ename"] == "KeyboardInterrupt"
    assert answer["cells"][1]["stdout"] == "next\n"


@pytest.mark.parametrize("code", ["import os\nos._exit(5)", "import os\nos.kill(os.getppid(), 9)"])
def test_a_lost_kernel_ends_the_request(sandbox: Sandbox, code: str) -> None:
    answer = run(sandbox, "print('one')", code, "print('three')")
    assert answer["status"] == "Failed"
    assert answer["message"]
    assert answer["driver"]["status"] == "Finished"
    assert answer["driver"]["return_code"] not in (0, None)
    assert len(answer["cells"]) == 2
    assert answer["cells"][1]["error"]


def test_exceeding_memory_is_reported(sandbox: Sandbox) -> None:
    hungry = "x = []\nwhile True: x.append(bytearray(b'x' * (8 << 20)))"
    answer = run(sandbox, hungry, memory_limit_MB=200)
    assert answer["status"] == "Failed"
    assert answer["driver"]["out_of_memory"]
    assert answer["driver"]["return_code"] == -9


def test_the_output_of_all_cells_is_bounded(sandbox: Sandbox) -> None:
    answer = run(sandbox, *["print('x' * 90_000)"] * 4)
    assert answer["status"] == "Success"
    assert sum(len(cell["stdout"]) for cell in answer["cells"]) == 200_000


def test_empty_cells_and_zero_timeouts_are_handled(sandbox: Sandbox) -> None:
    assert run(sandbox)["status"] == "Success"
    late = run(sandbox, "print(1)", total_timeout=0)
    assert (late["status"], late["cells"]) == ("Failed", [])
    assert late["driver"]["status"] == "TimeLimitExceeded"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cells": "print(1)"},
        {"cells": [1]},
        {"cells": [], "kernel": "R"},
        {"cells": [], "files": {"../a": ""}},
        {"cells": [], "files": {"a": "not base64"}},
        {"cells": [], "total_timeout": 10**9},
    ],
)
def test_an_invalid_request_is_rejected(sandbox: Sandbox, body: dict[str, Any]) -> None:
    assert sandbox.http.post("/run_jupyter", json=body).status_code == 422


def test_unknown_fields_and_lone_surrogates_are_accepted(sandbox: Sandbox) -> None:
    body = b'{"cells": ["\'\\ud800\'"], "future": 1}'
    answer = sandbox.http.post("/run_jupyter", content=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "Success"
