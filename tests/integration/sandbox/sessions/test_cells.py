"""Cells share a kernel and return everything that a notebook would show."""

import base64
import threading

import pytest

from tests.integration.sandbox.sessions.client import SessionClient
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

PNG = b"\x89PNG\r\n\x1a\n"


def test_state_and_files_persist_between_cells(session: SessionClient) -> None:
    first = session.execute("import math\ndef area(r):\n    return math.pi * r**2\nr = 2")
    assert (first["status"], first["execution_count"], first["display"]) == ("ok", 1, [])
    session.execute("open('notes.txt', 'w').write('kept')")
    second = session.execute("print(open('notes.txt').read()); round(area(r), 2)")
    assert second["stdout"] == "kept\n"
    assert second["display"] == [{"text/plain": "12.57"}]
    assert second["execution_count"] == 3
    assert second["error"] is None


def test_plots_are_returned_as_png(session: SessionClient) -> None:
    answer = session.execute(
        "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.title('$x^2$')\nplt.show()"
    )
    assert answer["status"] == "ok", answer
    assert base64.b64decode(answer["display"][0]["image/png"]).startswith(PNG)


def test_displays_carry_all_representations(session: SessionClient) -> None:
    frame = session.execute("import pandas as pd\npd.DataFrame({'a': [1]})")["display"][0]
    assert "<table" in frame["text/html"]
    assert "a" in frame["text/plain"]
    shown = session.execute(
        "from IPython.display import JSON, Markdown, display\n"
        "display(JSON({'k': [1, None]}))\ndisplay(Markdown('**b**'))\n'last'"
    )["display"]
    assert [bundle.get("application/json") for bundle in shown] == [{"k": [1, None]}, None, None]
    assert shown[1]["text/markdown"] == "**b**"
    assert shown[2]["text/plain"] == "'last'"


def test_errors_have_a_traceback_and_keep_the_state(session: SessionClient) -> None:
    answer = session.execute("x = 1\ndef f():\n    return 1 / 0\nprint('before')\nf()")
    assert (answer["status"], answer["stdout"]) == ("error", "before\n")
    error = answer["error"]
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    traceback = "\n".join(error["traceback"])
    assert "line 3, in f" in traceback
    assert "\x1b" not in traceback
    assert "services" not in traceback
    assert session.value("x") == "1"


def test_a_syntax_error_is_an_ordinary_error(session: SessionClient) -> None:
    assert session.execute("x = (")["error"]["ename"] == "SyntaxError"


@pytest.mark.parametrize("code", ["input()", "import getpass; getpass.getpass()"])
def test_no_process_can_be_reached(session: SessionClient, code: str) -> None:
    assert session.execute(code)["error"]["ename"] == "StdinNotImplementedError"


def test_standard_input_is_empty(session: SessionClient) -> None:
    assert session.value("import sys; sys.stdin.read()") == "''"


def test_all_writers_are_captured_in_order(session: SessionClient) -> None:
    code = (
        "import os, subprocess, sys\n"
        "print('python')\n"
        "subprocess.run(['echo', 'child'])\n"
        "os.write(1, b'descriptor\\n')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    print('fork')\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "get_ipython().system('echo shell')\n"
        "print('to stderr', file=sys.stderr)\n"
        "print('unfinished', end='')"
    )
    answer = session.execute(code)
    assert answer["stdout"] == "python\nchild\ndescriptor\nfork\nshell\nunfinished"
    assert answer["stderr"] == "to stderr\n"


def test_multiprocessing_pools_work(session: SessionClient) -> None:
    code = (
        "from multiprocessing import Pool\n"
        "def square(x):\n"
        "    return x * x\n"
        "with Pool(2) as pool:\n"
        "    print(pool.map(square, range(4)))"
    )
    assert session.printed(code) == "[0, 1, 4, 9]\n"


def test_displays_from_forks_do_not_break_the_kernel(session: SessionClient) -> None:
    code = (
        "import os\npid = os.fork()\nif pid == 0:\n    display('lost')\n    os._exit(0)\n"
        "os.waitpid(pid, 0)[1]"
    )
    assert session.value(code) == "0"
    assert session.value("1 + 1") == "2"


def test_coroutines_are_awaited(session: SessionClient) -> None:
    assert session.value("import asyncio\nawait asyncio.sleep(0, 'done')") == "'done'"


def test_thread_output_belongs_to_the_running_cell(session: SessionClient) -> None:
    session.execute(
        "import threading\nmay, has = threading.Event(), threading.Event()\n"
        "def talk():\n    may.wait()\n    print('late')\n    has.set()\n"
        "threading.Thread(target=talk).start()"
    )
    assert session.printed("may.set(); _ = has.wait(20)") == "late\n"


def test_undecodable_bytes_and_partial_characters_are_handled(
    session: SessionClient,
) -> None:
    raw = "import os; _ = os.write(1, b'a\\xff\\x00' + '\\N{SNOWMAN}'.encode())"
    assert session.printed(raw) == "a\N{REPLACEMENT CHARACTER}\0\N{SNOWMAN}"
    assert session.execute("raise ValueError('\\ud800')")["error"]["ename"] == "ValueError"
    body = b'{"code": "print(ascii(\'\\ud800\'))"}'
    answer = session.http.post(f"{session.path}/execute", content=body)
    assert answer.status_code == 200, answer.text
    assert session.value("'\\ud800'.isascii()") == "False"


def test_endless_output_is_truncated_and_flagged(session: SessionClient) -> None:
    answer = session.execute(
        "import sys\nprint('x' * 100_000_000)\nprint('y' * 300_000, file=sys.stderr)"
    )
    assert answer["status"] == "ok"
    assert answer["stdout"] == "x" * 200_000
    assert len(answer["stderr"]) == 200_000
    assert answer["stdout_truncated"]
    assert answer["stderr_truncated"]
    assert not answer["display_truncated"]
    shown = session.execute("for _ in range(30): display('z' * 20_000)")
    assert shown["display_truncated"]
    assert sum(len(bundle["text/plain"]) for bundle in shown["display"]) <= 200_000
    assert session.printed("print('and now')") == "and now\n"


def test_many_lines_become_few_events(session: SessionClient) -> None:
    events = list(session.stream("for number in range(20_000): print(number, flush=True)"))
    name, result = events[-1]
    assert (name, result["status"]) == ("result", "ok")
    assert len(events) < 3000


def test_many_alternating_outputs_and_displays_are_allowed(session: SessionClient) -> None:
    answer = session.execute(
        "import sys\n"
        "for number in range(3000):\n"
        "    print(number)\n"
        "    print(number, file=sys.stderr)\n"
        "    display(number)"
    )
    assert answer["status"] == "ok"
    assert len(answer["display"]) == 1000
    assert answer["stdout"].endswith("2999\n")
    assert answer["stderr"].endswith("2999\n")


def test_hand_made_iopub_messages_do_no_harm(session: SessionClient) -> None:
    answer = session.execute(
        "kernel = get_ipython().kernel\n"
        "def publish(kind, content): kernel.send_response(kernel.iopub_socket, kind, content)\n"
        "publish('stream', {'name': 'stdout', 'text': 'by hand'})\n"
        "publish('stream', {'name': 'other'})\n"
        "publish('display_data', {})\n"
        "publish('display_data', {'data': {'text/plain': 'shown', 'a/b': {'c': 1}}})\n"
        "publish('error', {'ename': 5})\n"
        "publish('unheard', {})"
    )
    assert answer["stdout"] == "by hand"
    assert answer["display"] == [{"text/plain": "shown", "a/b": {"c": 1}}]
    assert session.value("1 + 1") == "2"


def test_output_is_streamed_while_the_cell_runs(session: SessionClient, sandbox: Sandbox) -> None:
    code = (
        "import os, time\nprint('first', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "display('second')\n1 / 0"
    )
    events = []
    for name, data in session.stream(code):
        events.append((name, data))
        if name == "stdout":
            assert session.show()["status"] == "busy"
            assert session.upload("go", b"").status_code == 200
    assert [name for name, _ in events] == ["stdout", "display", "error", "result"]
    assert events[0][1] == {"text": "first\n"}
    assert events[1][1] == {"data": {"text/plain": "'second'"}}
    assert events[2][1]["ename"] == "ZeroDivisionError"
    result = events[3][1]
    assert (result["stdout"], result["status"]) == ("first\n", "error")


def test_only_one_cell_runs_at_a_time(session: SessionClient) -> None:
    running = threading.Thread(target=session.execute, args=("import time\ntime.sleep(60)",))
    running.start()
    try:
        wait_for(lambda: session.show()["status"] == "busy", "the cell runs")
        for path in ("execute", "execute/stream"):
            answer = session.http.post(f"{session.path}/{path}", json={"code": "1"})
            assert answer.status_code == 409
            assert answer.json()["error"]["code"] == "session_busy"
    finally:
        assert session.http.post(f"{session.path}/interrupt").status_code == 200
        running.join(30)
    assert session.value("1 + 1") == "2"


def test_kernels_have_different_random_seeds(session: SessionClient) -> None:
    draw = "import random, numpy\n(random.random(), numpy.random.random())"
    first = session.value(draw)
    assert session.http.post(f"{session.path}/restart").status_code == 200
    assert session.value(draw) != first


def test_nothing_of_the_service_is_visible(session: SessionClient) -> None:
    assert session.value("import sys\n[name for name in sys.modules if 'services' in name]") == "[]"
    assert "TEMPER" not in session.value("import os\nstr(dict(os.environ))")
    assert session.value("sorted(os.listdir())") == "[]"
