"""Programs of every kind, benign or hostile, and their expected results.

Every program that writes files uses names with a token in them.
"""

import base64
from typing import Any

from tests.integration.sandbox.drill import Run, ended_with, success, timed_out
from tests.support.sandbox import TIME_LIMITS


def runs(token: str, languages: set[str]) -> list[Run]:
    """What can be run where these languages work."""
    every = [*_python(), *_escaping(token), *_endless(), *_others()]
    return [run for run in every if run.body.get("language", "python") in languages]


def _body(code: str, language: str = "python", **more: Any) -> dict[str, Any]:
    return {"code": code, "language": language, **TIME_LIMITS, **more}


def _python() -> list[Run]:
    big = "import sys\nfor _ in range(10):\n    sys.stdout.write('x' * (1 << 20))\n"
    fetched = (
        "from pathlib import Path\nPath('out').mkdir()\n"
        "Path('out/copy.bin').write_bytes(Path('in.bin').read_bytes() * 2)\n"
    )
    files = {"in.bin": base64.b64encode(b"\x00ab").decode()}
    doubled = {"out/copy.bin": base64.b64encode(b"\x00ab" * 2).decode()}
    return [
        Run("print", 30, _body("print(1+1)"), success("2\n")),
        Run(
            "numpy",
            6,
            _body("import numpy as np\nprint(int(np.arange(9).sum()))"),
            success("36\n"),
        ),
        Run("sympy", 2, _body("import sympy\nprint(sympy.Integer(6) * 7)"), success("42\n")),
        Run("exception", 10, _body("[][1]"), ended_with(1)),
        Run("syntax", 3, _body("def"), ended_with(1)),
        Run("exit", 5, _body("import os\nos._exit(3)"), ended_with(3)),
        Run("segfault", 4, _body("import ctypes\nctypes.string_at(0)"), ended_with(-11)),
        Run("abort", 2, _body("import os\nos.abort()"), ended_with(-6)),
        Run("output", 3, _body(big), lambda answer: len(answer["run_result"]["stdout"]) == 8 << 20),
        Run("stdin", 4, _body("print(len(input()))", stdin="y" * 100_000), success("100000\n")),
        Run("unread", 3, _body("print(1)", stdin="y" * 3_000_000), success("1\n")),
        Run(
            "files",
            6,
            _body(fetched, files=files, fetch_files=["out/copy.bin", "none"]),
            lambda answer: answer["files"] == doubled,
        ),
        Run(
            "memory",
            3,
            _body("data = bytearray(400 << 20)", memory_limit_MB=100),
            ended_with(-9, 1),
        ),
        Run(
            "threads",
            2,
            _body("import threading as t\n[t.Thread(target=print).start() for _ in range(20)]"),
            success("\n" * 20),
        ),
        Run("refused", 3, _body("1", files={"../a": ""}), lambda _: True, status=422),
    ]


def _escaping(token: str) -> list[Run]:
    """Programs that try to leave something behind."""
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        {streams}\n        time.sleep(600)\n    os._exit(0)\nprint('left')"
    )
    closed = "os.closerange(0, 3)"
    children = "import subprocess\nfor _ in range(10):\n    subprocess.Popen(['sleep', '600'])"
    strays = (
        "import os\nfor folder in ('/tmp', '/var/tmp', '/dev/shm', '/', '/usr', '/workspace', '.'):"
        f"\n    try:\n        open(f'{{folder}}/{token}', 'w').write('z' * 1000000)\n"
        "    except OSError:\n        pass\n"
    )
    shared = (
        "import multiprocessing.shared_memory as s\n"
        f"m = s.SharedMemory('{token}', create=True, size=1 << 20)\nm.buf[0] = 1\n"
        "import os\nos._exit(0)"
    )
    return [
        Run("daemon", 5, _body(daemon.format(streams=closed)), success("left\n")),
        Run("daemon with streams", 5, _body(daemon.format(streams="pass")), success("left\n")),
        Run("children", 3, _body(children), success("")),
        Run("strays", 5, _body(strays), success("")),
        Run("shared memory", 3, _body(shared), success("")),
    ]


def _endless() -> list[Run]:
    spin = _body("while True: pass", run_timeout=0.2)
    stubborn = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('begun', flush=True)\nwhile True: time.sleep(1)"
    )
    sleeping = _body("import time\ntime.sleep(600)", run_timeout=60)
    return [
        Run("spin", 3, spin, timed_out),
        Run("stubborn", 3, _body(stubborn, run_timeout=0.3), timed_out),
        Run("no time", 2, _body("print(1)", run_timeout=0), timed_out),
        Run("client gone", 4, sleeping, lambda _: True, gone_after=0.2),
        Run("client gone at once", 3, sleeping, lambda _: True, gone_after=0.001),
        Run(
            "stream abandoned",
            3,
            _body("while True: print('z' * 1000)", run_timeout=60),
            lambda _: True,
            path="/v1/run_code/stream",
            gone_after=0.2,
        ),
    ]


def _others() -> list[Run]:
    cpp = '#include <cstdio>\nint main() { puts("3"); }'
    wrong = "int main() { return x; }"
    cells = {"cells": ["a = 6", "print(a * 7)", "1/0"], "total_timeout": 120}
    stdins = [{"stdin": f"{n}", "expected_output": f"{n + 1}"} for n in range(5)]
    return [
        Run("bash", 5, _body("echo $((6 * 7)); sleep 600 &", "bash"), success("42\n")),
        Run("cpp", 5, _body(cpp, "cpp"), success("3\n")),
        Run(
            "cpp that does not compile",
            1,
            _body(wrong, "cpp"),
            lambda answer: answer["compile_result"]["return_code"] == 1,
        ),
        Run("nodejs", 2, _body("console.log(42)", "nodejs"), success("42\n")),
        Run(
            "many inputs",
            2,
            _body("print(int(input()) + 1)", cases=stdins),
            lambda answer: answer["passed"] == 5,
            path="/v1/run_cases",
        ),
        Run(
            "notebook",
            1,
            cells,
            lambda answer: answer["cells"][1]["stdout"] == "42\n",
            path="/run_jupyter",
        ),
    ]
