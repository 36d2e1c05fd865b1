"""Every cell can be stopped, and its session reports what remains."""

import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.integration.sandbox.sessions.client import Answer, SessionClient
from tests.support.waiting import wait_for

STUBBORN = """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


def stopped(session: SessionClient, code: str) -> Answer:
    """The result of a cell that printed something and then exceeded its time.

    On a busy machine it may need more than the first time limit for as much as to print.
    """
    for seconds in (1, 5, 30):
        answer = session.execute(f"print('so far', flush=True)\n{code}", timeout=seconds)
        if answer["stdout"]:
            break
    return answer


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(100)",
        "import asyncio\nawait asyncio.sleep(100)",
        "!sleep 100",
        "import subprocess\nsubprocess.run(['sleep', '100'])",
        "import threading\nthreading.Event().wait()",
    ],
)
def test_a_timed_out_cell_is_interrupted_and_keeps_the_state(
    session: SessionClient, code: str
) -> None:
    session.execute("x = 'kept'")
    answer = stopped(session, code)
    assert (answer["status"], answer["stdout"]) == ("timed_out", "so far\n")
    assert not answer["kernel_restarted"]
    assert session.value("x") == "'kept'"


@pytest.mark.drill
def test_an_uninterruptible_cell_loses_its_kernel_but_no_files(
    session: SessionClient,
) -> None:
    session.execute("x = 1\nopen('kept.txt', 'w').write('kept')")
    answer = stopped(session, STUBBORN)
    assert (answer["status"], answer["stdout"]) == ("timed_out", "so far\n")
    assert answer["kernel_restarted"]
    assert answer["error"]["ename"] == "KernelDied"
    assert session.execute("x")["error"]["ename"] == "NameError"
    assert session.value("open('kept.txt').read()") == "'kept'"
    assert session.show()["restarts"] == 1


def in_background(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start some work; the returned function waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()

    def result() -> Any:
        thread.join(60)
        return results[0]

    return result


@pytest.mark.parametrize(
    ("how", "code", "restarted"),
    [("interrupt", "while True: pass", False), ("restart", STUBBORN, True)],
)
def test_a_cell_can_be_interrupted_by_another_request(
    session: SessionClient, how: str, code: str, restarted: bool
) -> None:
    marked = f"open('begun', 'w').close()\n{code}"
    result = in_background(lambda: session.execute(marked, timeout=60))
    wait_for(lambda: session.download("begun").status_code == 200, "the cell runs")
    assert session.http.post(f"{session.path}/{how}").status_code == 200
    answer = result()
    assert (answer["status"], answer["kernel_restarted"]) == ("interrupted", restarted)
    assert session.value("1 + 1") == "2"


def test_a_disconnect_interrupts_the_cell(session: SessionClient) -> None:
    body = {"code": "x = 5\nopen('begun', 'w').close()\nwhile True: pass", "timeout": 100}
    leaving = HTTPConnection(session.http.base_url.netloc.decode())
    leaving.request("POST", f"{session.path}/execute", json.dumps(body))
    wait_for(lambda: session.download("begun").status_code == 200, "the cell runs")
    leaving.close()
    wait_for(lambda: session.show()["status"] == "idle", "the cell is over")
    assert session.value("x") == "5"


def test_a_disconnect_ends_the_stream(session: SessionClient) -> None:
    for name, _ in session.stream("x = 6\nwhile True: print('more', flush=True)", timeout=100):
        assert name == "stdout"
        break
    wait_for(lambda: session.show()["status"] == "idle", "the cell is over")
    assert session.value("x") == "6"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os\nos._exit(3)", "exited with code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_a_dead_kernel_is_reported_and_replaced(
    session: SessionClient, code: str, words: str
) -> None:
    session.execute("x = 1")
    answer = session.execute(f"print('last words', flush=True)\n{code}")
    assert (answer["status"], answer["stdout"]) == ("kernel_died", "last words\n")
    assert answer["kernel_restarted"]
    assert words in answer["error"]["evalue"]
    again = session.execute("x")
    assert (again["error"]["ename"], again["execution_count"]) == ("NameError", 1)


def test_a_crash_reports_its_location(session: SessionClient) -> None:
    answer = session.execute("import ctypes\ndef here():\n    ctypes.string_at(0)\nhere()")
    assert "in here" in answer["stderr"]


def test_a_kernel_exit_between_cells_is_reported_by_the_next(session: SessionClient) -> None:
    begun = session.execute(
        "import os, threading, time\n"
        "def die():\n    while not os.path.exists('go'): time.sleep(0.01)\n    os._exit(7)\n"
        "threading.Thread(target=die).start()"
    )
    assert begun["status"] == "ok"
    session.upload("go", b"")  # no earlier: the cell is over
    wait_for(lambda: session.show()["restarts"] == 1, "the kernel has died")
    answer = session.execute("print('not run')")
    assert (answer["status"], answer["stdout"]) == ("kernel_died", "")
    assert "before the cell" in answer["error"]["evalue"]
    assert session.printed("print('run')") == "run\n"


def test_out_of_memory_is_reported_and_the_session_survives_or_ends(
    open_session: Callable[..., SessionClient],
) -> None:
    session = open_session(memory_limit_mb=200)
    assert session.value("import numpy\nnumpy.zeros(1_000_000).nbytes") == "8000000"
    answer = session.execute(
        "blocks = []\nwhile True:\n    blocks.append(bytearray(b'x' * (8 << 20)))"
    )
    assert answer["status"] in ("kernel_died", "session_ended")
    assert "memory" in answer["error"]["evalue"]
    if answer["status"] == "kernel_died":
        assert session.value("1 + 1") == "2"


@pytest.mark.parametrize(
    "message",
    [
        "b'\\xff' * 1000",  # not by chance: the length of a message can be among random bytes
        "struct.pack('>IQ', 12, 4) + b'{\"sizes\":[4]}garb'",
        "struct.pack('>IQ', 2, 0) + b'{}'",
    ],
)
def test_a_cell_that_forges_messages_loses_its_kernel_but_no_files(
    session: SessionClient, message: str
) -> None:
    session.execute("open('kept.txt', 'w').write('kept')")
    forged = f"import os, struct\nos.write(3, {message})\nimport time\ntime.sleep(100)"
    answer = session.execute(forged, timeout=30)
    assert answer["status"] == "kernel_died"
    assert session.value("open('kept.txt').read()") == "'kept'"


def test_only_one_thread_publishes_even_if_python_believes_it_dead(
    session: SessionClient,
) -> None:
    # What an interrupt in `Thread.is_alive` does, in Python 3.11, now and then.
    session.execute(
        "import threading\n"
        "thread = next(each for each in threading.enumerate() if each.name == 'IOPub')\n"
        "thread._tstate_lock.release()\nthread._stop()"
    )
    show = "for _ in range(10): display('shown')"
    answer = session.execute(
        f"def show():\n    {show}\n"
        "threads = [threading.Thread(target=show) for _ in range(8)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()"
    )
    assert answer["status"] == "ok"
    assert len(answer["display"]) == 80


def test_a_kernel_that_leaves_as_many_processes_as_it_may_is_replaced(
    session: SessionClient,
) -> None:
    session.execute(
        "import os, signal\n"
        "while True:\n"
        "    try: child = os.fork()\n"
        "    except OSError: break\n"
        "    if child == 0:\n"
        "        while True: signal.pause()\n"
        "os._exit(3)",
        timeout=60,
    )
    assert session.value("1 + 1") == "2"
    assert session.show()["restarts"] == 1


@pytest.mark.drill
@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    try: os.fork()\n    except BaseException: pass",
        "while True:\n    try: threading.Thread(target=threading.Event().wait).start()\n"
        "    except BaseException: pass",
        "for descriptor in range(3, 1000):\n    try: os.close(descriptor)\n"
        "    except OSError: pass",
        "for thing in gc.get_objects():\n    if isinstance(thing, zmq.Context): thing.term()",
        "for _ in range(10_000): os.write(3, os.urandom(1000))",
    ],
    ids=["forks", "threads", "descriptors", "channels", "garbage"],
)
def test_a_cell_that_breaks_its_session_breaks_no_other(
    open_session: Callable[..., SessionClient], code: str
) -> None:
    victim, other = open_session(), open_session()
    victim.execute(f"import gc, os, threading, zmq\n{code}", timeout=2)
    assert other.value("1 + 1") == "2"
    following = victim.http.post(f"{victim.path}/execute", json={"code": "1", "timeout": 5})
    assert following.status_code in (200, 409), following.text
    victim.delete()
    assert open_session().value("1 + 1") == "2"


def test_a_cell_that_kills_everything_ends_only_its_session(
    open_session: Callable[..., SessionClient],
) -> None:
    victim, other = open_session(), open_session()
    answer = victim.execute("import os, signal\nos.kill(-1, signal.SIGKILL)\nos._exit(1)")
    assert answer["status"] == "session_ended"
    shown = victim.show()
    assert shown["status"] == "ended"
    assert shown["end_reason"]
    refused = victim.http.post(f"{victim.path}/execute", json={"code": "1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_ended")
    assert other.value("1 + 1") == "2"
