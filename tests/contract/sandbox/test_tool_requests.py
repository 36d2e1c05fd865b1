"""Requests of tool classes that are copied from project to project.

Modeled on MindSpeed-RL's ``SandboxFusionTool`` and ``ReTool``, whose packages cannot be imported
without an accelerator's libraries.
"""

import json
from typing import Any

import pytest
import requests

NO_OUTPUT = "no stdout here"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
SECONDS_ON_TOP = 10


def use_tool(
    sandbox: str,
    code: str,
    *,
    timeout: int = 30,
    language: str = "python",
    memory_limit_mb: int = 1024,
) -> str:
    """Send a request like the tool, and build its reply."""
    body = {
        "compile_timeout": timeout,
        "run_timeout": timeout,
        "code": code,
        "stdin": None,
        "memory_limit_MB": memory_limit_mb,
        "language": language,
        "files": {},
        "fetch_files": [],
    }
    response = requests.post(
        f"{sandbox}/run_code",
        headers=HEADERS,
        data=json.dumps(body),
        timeout=timeout + timeout + SECONDS_ON_TOP,
    )
    response.raise_for_status()
    result: Any = response.json()["run_result"]
    if result is None or result["status"] != "Finished":
        return NO_OUTPUT
    return str(result["stdout"] + result["stderr"])


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        ("print(6 * 7)", "42\n"),
        ("", ""),
        ("import sys\nsys.stdout.write('a')\nsys.stderr.write('b')", "ab"),
        ("print('é \\N{SNOWMAN}')", "é ☃\n"),
        ("import os\nos.write(1, b'a\\xffb')", "a\ufffdb"),
        ("import sys\nsys.exit('no')", "no\n"),
        (
            "import os\nprint(os.environ.get('TEMPER_HOME'), input)",
            "None <built-in function input>\n",
        ),
    ],
)
def test_both_streams_are_returned(sandbox: str, code: str, reply: str) -> None:
    assert use_tool(sandbox, code) == reply


@pytest.mark.parametrize(
    ("code", "last_line"),
    [
        # The tool wraps the last line in print() as text, whatever is in it.
        ("x = 1\nprint(y = 2)", "TypeError: 'y' is an invalid keyword argument for print()"),
        ("for i in range(3):\nprint(    i)", "IndentationError: expected an indented block"),
        ("x = 1\nprint(x # the answer)", "SyntaxError: '(' was never closed"),
        ("input()", "EOFError: EOF when reading a line"),
        ("\ud800", "SyntaxError: "),
        ("print(1)\n\x00", "SyntaxError: source code "),
    ],
)
def test_broken_code_returns_its_error(sandbox: str, code: str, last_line: str) -> None:
    assert last_line in use_tool(sandbox, code).splitlines()[-1]


def test_numpy_fits_into_typical_tool_limits(sandbox: str) -> None:
    code = "import numpy\nprint(numpy.ones(3).sum())"

    assert use_tool(sandbox, code, memory_limit_mb=256) == "3.0\n"


def test_a_program_over_its_memory_limit_gets_a_response(sandbox: str) -> None:
    reply = use_tool(
        sandbox, "print('begun', flush=True)\nb = bytearray(600 << 20)", memory_limit_mb=100
    )

    assert reply.startswith("begun\n")


def test_no_output_after_a_timeout(sandbox: str) -> None:
    assert use_tool(sandbox, "while True: pass", timeout=1) == NO_OUTPUT


def test_no_output_for_code_that_does_not_compile(sandbox: str, needs_language: Any) -> None:
    needs_language("cpp")

    assert use_tool(sandbox, "int main() { return x; }", language="cpp") == NO_OUTPUT


def test_background_processes_do_not_delay_the_response(sandbox: str) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '300'])\nprint('done')"

    assert use_tool(sandbox, code, timeout=20) == "done\n"
