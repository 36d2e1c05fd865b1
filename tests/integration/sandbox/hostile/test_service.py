"""Clients that disconnect, and processes of the service that die or hang."""

import contextlib
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.integration.sandbox.hostile.test_processes import processes_with
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for


def zygotes(sandbox: Sandbox) -> list[int]:
    """The service's own children: one for each set of warm packages, and its helpers."""
    path = f"/proc/{sandbox.process.pid}/task/{sandbox.process.pid}/children"
    with open(path) as file:
        return [int(pid) for pid in file.read().split()]


def send(number: signal.Signals, pids: list[int]) -> None:
    """Signal those of these processes that still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def are_gone(pids: list[int]) -> bool:
    """Whether none of these is among the living."""
    return all(is_gone(pid) for pid in pids)


def is_gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_disconnect_kills_the_program(sandbox: Sandbox) -> None:
    mark = f"left-alone-{os.getpid()}"
    code = f"import os\nos.execv('/bin/sleep', ['{mark}', '600'])"
    body = {"code": code, "language": "python", "run_timeout": 200}
    with pytest.raises(httpx.ReadTimeout):
        sandbox.http.post("/run_code", json=body, timeout=httpx.Timeout(30, read=2))
    wait_for(lambda: not processes_with(mark), "the program has ended")


def test_killed_zygotes_are_replaced(sandbox: Sandbox) -> None:
    before = zygotes(sandbox)
    send(signal.SIGKILL, before)
    # Until then a slot can take a run, which dies with its zygote and is never run again.
    wait_for(lambda: are_gone(before), "the killed ones have ended")
    assert sandbox.output("import numpy\nprint(numpy.arange(3).sum())") == "3\n"


def test_a_run_whose_zygote_is_killed_is_an_error_of_the_sandbox(sandbox: Sandbox) -> None:
    mark = f"zygote-killed-{os.getpid()}"
    code = f"import os\nos.execv('/bin/sleep', ['{mark}', '600'])"
    with sandbox.started(code) as answer:
        wait_for(lambda: bool(processes_with(mark)), "the program")
        send(signal.SIGKILL, zygotes(sandbox))
    assert answer()["status"] == "SandboxError"


def test_hanging_zygotes_are_replaced(sandbox: Sandbox) -> None:
    stopped = zygotes(sandbox)
    send(signal.SIGSTOP, stopped)
    programs = [f"print({number})" for number in range(12)]
    answers = [sandbox.output(program) for program in programs]
    assert answers == [f"{number}\n" for number in range(12)]
